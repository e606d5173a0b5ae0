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

// Samples and steps of a run of epochs of `samples_per_epoch`, whose last step may be short.
struct StepGrid {
  std::uint64_t samples_per_epoch = 1, samples_per_step = 1;

  std::uint64_t steps_per_epoch() const {
    return (samples_per_epoch + samples_per_step - 1) / samples_per_step;
  }
  // The first step (from 1) that ends at `samples` of the run or beyond; 0 for none.
  std::uint64_t step_of(std::uint64_t samples) const;
  std::uint64_t samples_after(std::uint64_t steps) const;
};

class EventClock {
 public:
  // `samples_per_epoch` = N.
  EventClock(const EventInterval& interval, std::uint64_t samples_per_epoch)
      : interval_(interval), samples_per_epoch_(samples_per_epoch) {}

  // Whether a step that led from `samples_before` to `samples_after` (of the whole run) and ended
  // as number `step` (from 1) is followed by the event.
  bool due(std::int64_t step, std::uint64_t samples_before, std::uint64_t samples_after) const;
  // How many events follow the steps after `from`, up to and with `to`; a step that is due for both
  // reasons may count twice.
  struct Place {
    std::int64_t step = 0;
    std::uint64_t samples = 0;  // of the whole run
  };
  std::int64_t count(const Place& from, const Place& to) const;
  // The next step after `from` that is due; nothing where none ever is.
  std::optional<std::int64_t> next_step(const Place& from, const StepGrid& grid) const;

 private:
  unsigned __int128 period() const;  // in millionths of a sample
  std::uint64_t periods(std::uint64_t samples) const;
  EventInterval interval_;
  std::uint64_t samples_per_epoch_;
};

}  // namespace wmtp::run
