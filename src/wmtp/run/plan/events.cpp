#include "wmtp/run/plan/events.h"

#include <algorithm>
#include <cmath>

namespace wmtp::run {

unsigned __int128 EventClock::period() const {
  const auto millionths = static_cast<std::uint64_t>(std::llround(*interval_.epochs * 1e6));
  return static_cast<unsigned __int128>(millionths) * samples_per_epoch_;
}

std::uint64_t EventClock::periods(std::uint64_t samples) const {
  if (period() == 0) return 0;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(samples) * 1'000'000 / period());
}

bool EventClock::due(std::int64_t step, std::uint64_t samples_before,
                     std::uint64_t samples_after) const {
  if (interval_.steps && step % *interval_.steps == 0) return true;
  return interval_.epochs && periods(samples_after) > periods(samples_before);
}

std::int64_t EventClock::count(const Place& from, const Place& to) const {
  std::int64_t events = 0;
  if (interval_.steps) events += to.step / *interval_.steps - from.step / *interval_.steps;
  if (interval_.epochs)
    events += static_cast<std::int64_t>(periods(to.samples) - periods(from.samples));
  return events;
}

std::optional<std::int64_t> EventClock::next_step(const Place& from, const StepGrid& grid) const {
  std::optional<std::int64_t> next;
  if (interval_.steps) next = (from.step / *interval_.steps + 1) * *interval_.steps;
  if (interval_.epochs && period() > 0) {
    const auto samples =
        static_cast<std::uint64_t>(((periods(from.samples) + 1) * period() + 999'999) / 1'000'000);
    const std::int64_t by_samples =
        from.step + static_cast<std::int64_t>(grid.step_of(samples) - grid.step_of(from.samples));
    next = next ? std::min(*next, by_samples) : by_samples;
  }
  return next;
}

std::uint64_t StepGrid::step_of(std::uint64_t samples) const {
  const std::uint64_t rest = samples % samples_per_epoch;
  return samples / samples_per_epoch * steps_per_epoch() +
         (rest + samples_per_step - 1) / samples_per_step;
}

std::uint64_t StepGrid::samples_after(std::uint64_t steps) const {
  return steps / steps_per_epoch() * samples_per_epoch +
         std::min(samples_per_epoch, steps % steps_per_epoch() * samples_per_step);
}

}  // namespace wmtp::run
