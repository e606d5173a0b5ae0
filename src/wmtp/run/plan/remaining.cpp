#include "wmtp/run/plan/remaining.h"

#include <algorithm>

#include "wmtp/run/plan/from_config.h"

namespace wmtp::run {

RemainingEvents::RemainingEvents(const config::Config& config, const StepGrid& grid, bool validates)
    : grid_(grid),
      validates_(validates),
      saves_end_(config.checkpoint.save_final),
      validations_(validation_interval(config), grid.samples_per_epoch),
      saves_(save_interval(config), grid.samples_per_epoch) {}

tracking::RemainingWork RemainingEvents::after(const EventClock::Place& now,
                                               std::int64_t num_steps) const {
  tracking::RemainingWork work{.num_steps = num_steps - now.step};
  if (work.num_steps <= 0) return work;
  // The last step has events of its own: a validation always, a save if it is asked for.
  const auto steps = static_cast<std::uint64_t>(work.num_steps - 1);
  const EventClock::Place before_last{num_steps - 1,
                                      grid_.samples_after(grid_.step_of(now.samples) + steps)};
  if (validates_) work.num_validations = validations_.count(now, before_last) + 1;
  work.num_saves = saves_.count(now, before_last) + (saves_end_ ? 1 : 0);
  return work;
}

std::optional<std::int64_t> RemainingEvents::next_save(const EventClock::Place& now,
                                                       std::int64_t num_steps) const {
  if (now.step >= num_steps) return std::nullopt;
  std::optional<std::int64_t> next = saves_.next_step(now, grid_);
  if (next && *next > num_steps) next.reset();
  if (!next && saves_end_) next = num_steps;
  return next;
}

}  // namespace wmtp::run
