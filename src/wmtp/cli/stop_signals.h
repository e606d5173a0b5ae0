// RunRequests to stop, from signals, from the stop file and from the time limit. Handlers only note
// them; the training loop asks between steps. A second request that is no mere repeat leaves at
// once with 81.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/time.h"
#include "wmtp/run/checkpoints/train_state.h"

namespace wmtp::cli {

// The signals that ask a run to stop: SIGTERM, SIGUSR1, SIGINT and, unless the program was started
// with it ignored (nohup), SIGHUP.
std::span<const int> stop_signals();

// While a run starts there is nothing to save: from here until StopSignals or the launcher take
// over, the stop signals leave at once with 81. SIGUSR2 is kept for later. Async-signal-safe, and
// needs no initialised library.
void leave_on_stop_signals();

// The end of the allocation that a run is in, and how long before it the run is to stop.
class TimeLimit {
 public:
  // `stop_before_end_s` as runtime.stop_before_end_s: 0 reads no variable. The end is WMTP_STOP_AT,
  // else SLURM_JOB_END_TIME, in seconds since 1970; Error config names what is no such time.
  TimeLimit(const comm::EnvLookup& environment, std::optional<std::int64_t> stop_before_end_s);

  // When to stop, in seconds since 1970, where a save takes `save_s`; nothing without a limit.
  std::optional<double> stop_at_s(double save_s) const;
  // How much is left of the allocation; 0 without a limit.
  std::chrono::milliseconds left() const;
  // "WMTP_STOP_AT=1790000000, 60 s before it"
  std::string describe(double save_s) const;

 private:
  double margin_s(double save_s) const;

  std::string variable_;
  std::optional<std::int64_t> end_s_;
  std::optional<std::int64_t> margin_s_;
};

class StopSignals {
 public:
  // Installs handlers of the stop signals and SIGUSR2 for the rest of the process.
  // `stop_file` is looked for at most once a second; an old one is removed here. Empty: none.
  // BORROWS progress, which knows how long saves take.
  StopSignals(std::filesystem::path stop_file, TimeLimit limit, const run::RunProgress& progress);

  bool requested();
  bool save_requested();              // SIGUSR2; once for each
  bool is_too_late(bool tell) const;  // the time limit is reached before the first step
  // How long the save of a stop may take: `grace_s`; if it is the time limit that stops the run,
  // all that is left of the allocation where that is more.
  std::chrono::milliseconds grace(std::int64_t grace_s) const;

 private:
  bool limit_reached();

  std::filesystem::path stop_file_;
  TimeLimit limit_;
  const run::RunProgress& progress_;
  bool limit_told_ = false;  // it is reached
  Clock::time_point looked_;
  bool found_ = false;
};

}  // namespace wmtp::cli
