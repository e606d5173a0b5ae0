#include "wmtp/run/pending_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::run {

std::optional<PendingStep> PendingSteps::read(std::size_t keep) {
  if (steps_.size() <= keep) return std::nullopt;
  PendingStep step = std::move(steps_.front());
  steps_.pop_front();
  step.record.result = step.pending.read();
  step.record.measured = step.system.measured();
  step.record.readings = step.system.readings();
  // From start to start; of the newest step, to now.
  step.record.step_time_s =
      seconds_since(step.started) - (steps_.empty() ? 0 : seconds_since(steps_.front().started));
  return step;
}

void count_skipped(const PendingStep& step, std::int64_t max_bad_steps, TrainState& state) {
  const training::StepResult& result = step.record.result;
  if (result.applied) {
    state.bad_in_a_row = 0;
    return;
  }
  ++state.skipped_steps;
  if (!result.bad) return;
  ++state.bad_in_a_row;
  log::warn("train",
            "step {}: the loss, the gradient or a signal is not finite; nothing was updated",
            step.record.step);
  if (state.bad_in_a_row < max_bad_steps) return;
  throw Error(ErrorKind::numeric, "train",
              fmt::format("{} steps in a row were not finite, the last one {} with samples {}",
                          state.bad_in_a_row, step.record.step, fmt::join(step.sample_ids, ", ")),
              "lower training.learning_rate, or look at those samples (wmtp data inspect)");
}

}  // namespace wmtp::run
