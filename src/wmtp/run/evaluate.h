// The model as it is now: on the validation set, and on one batch for people to look at.
#pragma once
#include <cstdint>
#include <functional>

#include "wmtp/run/data/run_data.h"
#include "wmtp/run/plan/model_plan.h"
#include "wmtp/run/report/run_report.h"
#include "wmtp/run/stages/stage_signals.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

struct EvaluatedParts {
  const ModelPlan& plan;
  const RunData& data;
  training::TrainableModel& model;
  StageSignals& signals;
};

// Told before the first batch and after each one.
using TellBatches = std::function<void(std::int64_t num_done, std::int64_t num_batches)>;

// COLLECTIVE: the numbers of the whole validation set, the same on all ranks. REQUIRES one.
training::Numbers evaluate(const EvaluatedParts& parts, comm::Communicator& group,
                           const TellBatches& tell);

// COLLECTIVE: what the stage makes of the first batch, reported where there is a report.
void show_sample(const EvaluatedParts& parts, std::int64_t step, RunReport* report);

}  // namespace wmtp::run
