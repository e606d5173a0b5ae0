// The micro-batches that a planner gives a rank, and the order in which all ranks together take the
// samples.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "data/corpus_fixture.h"
#include "wmtp/data/plan/collate.h"
#include "wmtp/data/plan/loader.h"

namespace wmtp::data::test {

using Ids = std::vector<std::uint64_t>;

inline TrainPlanner::Run run_of(int world, int rank, std::uint32_t batch,
                                std::uint32_t accumulation = 1) {
  TrainPlanner::Run run;
  run.shape = {world, rank, batch, accumulation};
  run.collate.num_heads = 4;
  return run;
}

inline std::vector<MicroBatchPlan> all_plans(const std::shared_ptr<const Dataset>& dataset,
                                             const TrainPlanner::Run& run) {
  TrainPlanner planner(dataset, run);
  std::vector<MicroBatchPlan> plans;
  MicroBatchPlan plan;
  while (planner.next(plan)) plans.push_back(plan);
  return plans;
}

inline Ids ids_of(const std::vector<Sequence>& sequences) {
  Ids ids;
  for (const Sequence& sequence : sequences) ids.push_back(sequence.sample_id);
  return ids;
}

// The order of samples as all ranks together take it: micro-batch by micro-batch, rank by rank.
inline Ids global_order(const std::shared_ptr<const Dataset>& dataset, int world,
                        std::uint32_t batch, std::uint32_t accumulation, double epochs = 1,
                        std::uint64_t epoch = 0, std::uint64_t taken = 0) {
  std::vector<std::vector<MicroBatchPlan>> ranks;
  for (int rank = 0; rank < world; ++rank) {
    TrainPlanner::Run run = run_of(world, rank, batch, accumulation);
    run.num_epochs_millionths = epochs_in_millionths(epochs);
    run.epoch = epoch, run.samples_taken = taken;
    ranks.push_back(all_plans(dataset, run));
    EXPECT_EQ(ranks.back().size(), ranks.front().size())
        << "every rank runs the same number of micro-batches";
  }
  Ids order;
  for (std::size_t i = 0; i < ranks.front().size(); ++i)
    for (const auto& plans : ranks)
      for (std::uint64_t id : ids_of(plans[i].sequences)) order.push_back(id);
  return order;
}

}  // namespace wmtp::data::test
