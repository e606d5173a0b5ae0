// Whether a run folder has grown, and whether a process is still at it. Looks at times and sizes
// alone.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>

#include "wmtp/core/time.h"

namespace wmtp::tracking {

// A run that shows no sign of life for this long is gone: its lock is touched every two seconds.
inline constexpr std::chrono::seconds kSilenceLimit{15};

class RunWatch {
 public:
  explicit RunWatch(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Whether anything that a report reads has changed since the look before; true for the first.
  bool look(Clock::time_point now);
  // Killed without a last word, as far as can be seen: neither a file nor the lock below
  // `checkpoints` changes. Never where there is no lock to look at.
  bool is_gone(Clock::time_point now) const;
  bool has_last_word() const;  // it has written how it ended

 private:
  std::filesystem::path folder_;
  std::string seen_, heartbeat_;
  Clock::time_point alive_ = {};
};

// Error data where a file that a report reads is a link to somewhere outside its run folder.
void require_own_files(const std::filesystem::path& folder);

}  // namespace wmtp::tracking
