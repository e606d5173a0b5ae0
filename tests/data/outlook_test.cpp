// What is told of a run before it begins, held against what its planner then hands out.
#include <gtest/gtest.h>

#include "data/planned_batches.h"
#include "wmtp/data/outlook/data_outlook.h"

namespace wmtp::data {
namespace {

using test::all_plans;
using test::CorpusFixture;
using test::run_of;

SamplingOptions curriculum() {
  SamplingOptions options;
  options.n_samples = 10;
  options.difficulty_bins = {{"easy", 0, 1}, {"hard", 2, 9}};
  options.curriculum_learning = true;
  options.curriculum_schedule = {{0, 1.5, {{"easy", 1}}},
                                 {1.5, 2.25, {{"easy", 0.5}, {"hard", 0.5}}},
                                 {2.25, 9, {{"hard", 1}}}};
  return options;
}

// Samples of each bin in the steps of a phase, whose ends here are ends of steps.
std::vector<std::uint64_t> drawn_in(const std::vector<MicroBatchPlan>& plans,
                                    const Dataset& dataset, const DrawnPhase& phase) {
  const Bins bins(dataset.options().difficulty_bins);
  std::vector<std::uint64_t> drawn(bins.size());
  for (const MicroBatchPlan& plan : plans) {
    if (plan.step < phase.first_step || plan.step > phase.last_step) continue;
    for (const Sequence& sequence : plan.sequences)
      ++drawn[*bins.bin_of(
          dataset.corpus().table().difficulty(static_cast<std::uint32_t>(sequence.source)))];
  }
  return drawn;
}

TEST(Outlook, PhasesAreWhatThePlannerHandsOut) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset(curriculum());
  TrainPlanner::Run run = run_of(1, 0, 1);
  run.num_epochs_millionths = 2'800'000;
  const auto plans = all_plans(dataset, run);
  const DrawnPhases found = drawn_phases(*dataset, {run.num_epochs_millionths, 1, 0});
  ASSERT_EQ(found.phases.size(), 5u);
  EXPECT_EQ(found.bins, (std::vector<std::string>{"easy", "hard"}));
  EXPECT_EQ(found.num_epochs, 3u);
  std::uint64_t next = 0;
  for (const DrawnPhase& phase : found.phases) {
    EXPECT_EQ(phase.first_step, next);
    EXPECT_EQ(phase.drawn, drawn_in(plans, *dataset, phase)) << "from step " << phase.first_step;
    next = phase.last_step + 1;
  }
  EXPECT_EQ(next, plans.size());
  EXPECT_EQ(next, num_steps({run.num_epochs_millionths, 1, 0}, dataset->size()));
  EXPECT_EQ(found.phases[0].drawn, (std::vector<std::uint64_t>{10, 0}));
  EXPECT_EQ(found.phases[4].drawn, (std::vector<std::uint64_t>{0, 6}));
}

TEST(Outlook, PhasesEndWithMaxStepsAndMayShareAStep) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset(curriculum());
  // 4 samples a step, 3 steps an epoch: epoch 1 changes within its second step.
  const DrawnPhases found = drawn_phases(*dataset, {3'000'000, 4, 5});
  ASSERT_EQ(found.phases.size(), 3u);
  EXPECT_EQ(found.phases[1].first_step, 3u);
  EXPECT_EQ(found.phases[1].last_step, 4u);
  EXPECT_EQ(found.phases[2].first_step, 4u);
  EXPECT_EQ(found.phases[2].last_step, 4u);
  EXPECT_EQ(found.phases[2].num_samples, 3u);
  EXPECT_EQ(num_steps({3'000'000, 4, 5}, dataset->size()), 5u);
}

TEST(Outlook, WithoutBinsThereAreNoPhases) {
  EXPECT_TRUE(drawn_phases(*CorpusFixture().dataset(), {}).phases.empty());
}

TEST(Outlook, TokensOfAnEpochAreThoseOfTheBatchesOfAllRanks) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  for (const bool limited : {false, true})
    for (const bool packing : {true, false}) {
      TrainPlanner::Run run = run_of(3, 0, 4, 2);
      run.collate.packing = packing;
      run.collate.pack_multiple = 32;
      if (limited) run.collate.max_tokens_per_batch = 500;
      std::uint64_t tokens = 0, batches = 0;
      for (run.shape.rank = 0; run.shape.rank < 3; ++run.shape.rank)
        for (const MicroBatchPlan& plan : all_plans(dataset, run)) {
          tokens += collate(plan, run.collate, 400, heap_allocator()).num_tokens();
          batches += plan.sequences.empty() ? 0 : 1;
        }
      const EpochBatches found = epoch_batches(dataset, run.shape, run.collate);
      const LaidOut& laid_out = packing ? found.packed : found.padded;
      EXPECT_EQ(laid_out.num_tokens, tokens) << packing << limited;
      EXPECT_EQ(laid_out.num_batches, batches) << packing << limited;
    }
}

TEST(Outlook, RepeatedRowsAreComparedByTheirTokens) {
  CorpusFixture fixture(3);
  fixture.add("again.jsonl", 2);
  const auto found = repeated_rows(*fixture.corpus());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->num_rows, 5u);
  EXPECT_EQ(found->num_repeated, 2u);
  EXPECT_EQ(found->first, (std::pair<std::uint32_t, std::uint32_t>{3, 0}));
}

}  // namespace
}  // namespace wmtp::data
