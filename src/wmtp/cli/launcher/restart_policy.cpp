#include "wmtp/cli/launcher/restart_policy.h"

#include <algorithm>
#include <array>

namespace wmtp::cli {

bool is_retried(int code) {
  constexpr std::array kRetried{75, 81, 134, 137, 139};
  return std::find(kRetried.begin(), kRetried.end(), code) != kRetried.end();
}

std::optional<std::chrono::seconds> RestartPolicy::next_pause(
    int code, std::optional<std::int64_t> committed_step) {
  if (committed_step && (!newest_step_ || *committed_step > *newest_step_)) {
    newest_step_ = committed_step;
    used_ = 0;
  }
  if (!is_retried(code) || used_ >= max_restarts_) return std::nullopt;
  const int doublings = std::min(used_++, 5);
  return std::chrono::seconds(std::min(1 << doublings, 30));
}

}  // namespace wmtp::cli
