// When `wmtp launch` starts all ranks again: after 75, 81, 134, 137, 139, with growing pauses, at
// most `max_restarts` times in a row without a newly committed step. Everything else is final.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

namespace wmtp::cli {

bool is_retried(int code);  // the exit-code classes of the launcher, 128 + s for death by signal s

class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}

  // An attempt ended with `code`; `committed_step` is the newest step that can be resumed, if
  // known. The pause before the next attempt, or nothing when the launcher should end with `code`.
  std::optional<std::chrono::seconds> next_pause(int code,
                                                 std::optional<std::int64_t> committed_step);

  int used() const { return used_; }  // restarts since the last progress
  int max_restarts() const { return max_restarts_; }

 private:
  int max_restarts_;
  int used_ = 0;
  std::optional<std::int64_t> newest_step_;
};

}  // namespace wmtp::cli
