// RunRequests to stop, from signals and from the stop file. Handlers only note them; the training
// loop asks between steps. A second request that is no mere repeat leaves at once with 81.
#pragma once
#include <chrono>
#include <filesystem>
#include <span>

#include "wmtp/core/time.h"

namespace wmtp::cli {

// The signals that ask a run to stop: SIGTERM, SIGUSR1, SIGINT and, unless the program was started
// with it ignored (nohup), SIGHUP.
std::span<const int> stop_signals();

// While a run starts there is nothing to save: from here until StopSignals or the launcher take
// over, the stop signals leave at once with 81. SIGUSR2 is kept for later. Async-signal-safe, and
// needs no initialised library.
void leave_on_stop_signals();

class StopSignals {
 public:
  // Installs handlers of the stop signals and SIGUSR2 for the rest of the process.
  // `stop_file` is looked for at most once a second; an old one is removed here. Empty: none.
  explicit StopSignals(std::filesystem::path stop_file);

  bool requested();
  bool save_requested();  // SIGUSR2; once for each

 private:
  std::filesystem::path stop_file_;
  Clock::time_point looked_;
  bool found_ = false;
};

}  // namespace wmtp::cli
