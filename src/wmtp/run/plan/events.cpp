#include "wmtp/run/plan/events.h"

#include <cmath>

namespace wmtp::run {

std::uint64_t EventClock::periods(std::uint64_t samples) const {
  const auto millionths = static_cast<std::uint64_t>(std::llround(*interval_.epochs * 1e6));
  const auto period = static_cast<unsigned __int128>(millionths) * samples_per_epoch_;
  if (period == 0) return 0;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(samples) * 1'000'000 / period);
}

bool EventClock::due(std::int64_t step, std::uint64_t samples_before,
                     std::uint64_t samples_after) const {
  if (interval_.steps && step % *interval_.steps == 0) return true;
  return interval_.epochs && periods(samples_after) > periods(samples_before);
}

}  // namespace wmtp::run
