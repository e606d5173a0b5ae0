#include "wmtp/data/outlook/epoch_batches.h"

#include <algorithm>

#include "wmtp/data/plan/collate.h"
#include "wmtp/data/plan/step_planner.h"

namespace wmtp::data {
namespace {

LaidOut count_batches(const std::shared_ptr<const Dataset>& dataset, TrainPlanner::Run run) {
  LaidOut out;
  const std::uint32_t max_length = dataset->corpus().max_length();
  for (run.shape.rank = 0; run.shape.rank < run.shape.world_size; ++run.shape.rank) {
    TrainPlanner planner(dataset, run);
    MicroBatchPlan plan;
    while (planner.next(plan)) {
      const std::uint64_t tokens = num_batch_tokens(plan, run.collate, max_length);
      out.num_batches += plan.sequences.empty() ? 0 : 1;
      out.num_tokens += tokens;
      out.largest = std::max(out.largest, tokens);
    }
  }
  return out;
}

}  // namespace

EpochBatches epoch_batches(const std::shared_ptr<const Dataset>& dataset, const StepShape& shape,
                           const CollateOptions& collate) {
  TrainPlanner::Run run;
  run.shape = shape;
  run.collate = collate;
  EpochBatches out;
  run.collate.packing = true;
  out.packed = count_batches(dataset, run);
  run.collate.packing = false;
  out.padded = count_batches(dataset, run);
  return out;
}

}  // namespace wmtp::data
