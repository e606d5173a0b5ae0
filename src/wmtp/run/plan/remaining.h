// What lies before a run at each of its steps, for estimates of time: steps, validations, saves.
#pragma once
#include <cstdint>
#include <optional>

#include "wmtp/config/config.h"
#include "wmtp/run/plan/events.h"
#include "wmtp/tracking/eta.h"

namespace wmtp::run {

class RemainingEvents {
 public:
  // `validates`: there is a validation set.
  RemainingEvents(const config::Config& config, const StepGrid& grid, bool validates);

  tracking::RemainingWork after(const EventClock::Place& now, std::int64_t num_steps) const;
  // The step that the intervals save next, the end of the run included.
  std::optional<std::int64_t> next_save(const EventClock::Place& now, std::int64_t num_steps) const;

 private:
  StepGrid grid_;
  bool validates_, saves_end_;
  EventClock validations_, saves_;
};

}  // namespace wmtp::run
