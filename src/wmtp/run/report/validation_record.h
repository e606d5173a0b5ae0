// What validations decide about a run: the best checkpoint, the learning rate of a plateau
// schedule, and (by the count of those without a new best) the early end.
#pragma once
#include "wmtp/config/config.h"
#include "wmtp/run/checkpoints/train_state.h"
#include "wmtp/training/objective.h"

namespace wmtp::run {

// Takes the newest validation into `state`, at state.step. Throws ErrorKind::config where the stage
// has no such metric as checkpoint.best_metric names.
void record_validation(const config::Config& config, const training::Numbers& numbers,
                       TrainState& state);

}  // namespace wmtp::run
