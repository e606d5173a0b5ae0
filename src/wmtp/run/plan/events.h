// When something is due: after the first step whose sample count reaches j * interval * N, or every
// so many steps, whichever comes first. Integers only, so that world size and batch size do not
// move it.
#pragma once
#include <cstdint>
#include <optional>

namespace wmtp::run {

struct EventInterval {
  std::optional<double> epochs;
  std::optional<std::int64_t> steps;
  bool never() const { return !epochs && !steps; }
};

class EventClock {
 public:
  // `samples_per_epoch` = N.
  EventClock(const EventInterval& interval, std::uint64_t samples_per_epoch)
      : interval_(interval), samples_per_epoch_(samples_per_epoch) {}

  // Whether a step that led from `samples_before` to `samples_after` (of the whole run) and ended
  // as number `step` (from 1) is followed by the event.
  bool due(std::int64_t step, std::uint64_t samples_before, std::uint64_t samples_after) const;

 private:
  std::uint64_t periods(std::uint64_t samples) const;
  EventInterval interval_;
  std::uint64_t samples_per_epoch_;
};

}  // namespace wmtp::run
