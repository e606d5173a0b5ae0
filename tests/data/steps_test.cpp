// Steps and ranks: which sample is taken when and by whom, and how a run goes on where it stopped.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/planned_batches.h"
#include "support/expect_error.h"
#include "wmtp/core/log.h"

namespace wmtp::data {
namespace {

using test::all_plans;
using test::CorpusFixture;
using test::global_order;
using test::Ids;
using test::ids_of;
using test::run_of;

// Building caches is told on the log; the tests build hundreds.
class QuietLog : public ::testing::Environment {
  void SetUp() override { log::configure({.level = log::Level::error}); }
};
const auto* const kQuietLog = ::testing::AddGlobalTestEnvironment(new QuietLog);

TEST(Steps, OneToEightRanksTakeTheSameOrder) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  const Ids expected = global_order(dataset, 1, 1, 1, 2.4);
  EXPECT_EQ(expected.size(), 53u + 53 + 21);
  EXPECT_EQ(std::set<std::uint64_t>(expected.begin(), expected.begin() + 53).size(), 53u);
  EXPECT_NE(Ids(expected.begin(), expected.begin() + 53),
            Ids(expected.begin() + 53, expected.begin() + 106));
  for (int world = 1; world <= 8; ++world)
    for (std::uint32_t batch : {1u, 2u, 3u})
      for (std::uint32_t accumulation : {1u, 3u})
        EXPECT_EQ(global_order(dataset, world, batch, accumulation, 2.4), expected)
            << world << " " << batch;
}

TEST(Steps, SlicesOfRanksAreDisjointCompleteAndEven) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  for (int world = 1; world <= 8; ++world) {
    std::set<std::uint64_t> all;
    std::vector<std::size_t> sizes;
    for (int rank = 0; rank < world; ++rank) {
      std::size_t count = 0;
      for (const MicroBatchPlan& plan : all_plans(dataset, run_of(world, rank, 2)))
        for (std::uint64_t id : ids_of(plan.sequences)) EXPECT_TRUE(all.insert(id).second), ++count;
      sizes.push_back(count);
    }
    EXPECT_EQ(all.size(), 53u);
    EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()) -
                  *std::min_element(sizes.begin(), sizes.end()),
              2u);
  }
}

TEST(Steps, GroupsOfAStepDoNotDependOnTheWorld) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  // 24 samples a step in groups of 2, on 1, 2, 3, 4, 6 ranks.
  std::set<std::set<Ids>> seen;
  for (int world : {1, 2, 3, 4, 6}) {
    std::set<Ids> groups;
    for (int rank = 0; rank < world; ++rank)
      for (const auto& plan :
           all_plans(dataset, run_of(world, rank, 2, static_cast<std::uint32_t>(12 / world))))
        if (!plan.sequences.empty()) groups.insert(ids_of(plan.sequences));
    seen.insert(groups);
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(Steps, ResumeAtEverySampleUnderAnyShape) {
  const CorpusFixture fixture(17);
  const auto dataset = fixture.dataset();
  const Ids expected = global_order(dataset, 1, 1, 1, 2);
  for (std::uint64_t taken = 0; taken <= 17; ++taken)
    for (const auto& [world, batch, accumulation] :
         {std::tuple(1, 1u, 1u), {3, 2u, 1u}, {2, 1u, 4u}, {8, 3u, 1u}})
      for (std::uint64_t epoch : {0u, 1u}) {
        const Ids rest = global_order(dataset, world, batch, accumulation, 2, epoch, taken);
        EXPECT_EQ(rest, Ids(expected.begin() + static_cast<std::ptrdiff_t>(epoch * 17 + taken),
                            expected.end()));
      }
}

TEST(Steps, CursorsContinueWhereTheStepEnded) {
  const CorpusFixture fixture(17);
  SamplingOptions sampling;
  sampling.resample_each_epoch = true;
  sampling.n_samples = 11;
  const auto dataset = fixture.dataset(sampling);
  TrainPlanner::Run run = run_of(2, 0, 2);
  run.num_epochs_millionths = epochs_in_millionths(3);
  const auto plans = all_plans(dataset, run);
  EXPECT_EQ(plans.size(), 9u);  // 3 steps of 4, 4, 3 samples an epoch
  EXPECT_EQ(plans.back().step + 1, steps_left(3'000'000, 11, 4));
  for (std::size_t i = 0; i + 1 < plans.size(); ++i) {
    const Cursor cursor = plans[i].cursor_after;
    EXPECT_EQ(cursor_from_json(Json::parse(to_json(cursor).dump())), cursor);
    const Cursor here = dataset->cursor_at(cursor.epoch, 0);
    EXPECT_EQ(continue_from(cursor, here, false), cursor);
    TrainPlanner::Run rest = run;
    rest.epoch = cursor.epoch, rest.samples_taken = cursor.samples_taken;
    const auto after = all_plans(dataset, rest);
    ASSERT_EQ(after.size(), plans.size() - i - 1);
    for (std::size_t j = 0; j < after.size(); ++j)
      EXPECT_EQ(ids_of(after[j].sequences), ids_of(plans[i + 1 + j].sequences));
    EXPECT_EQ(steps_left(3'000'000, 11, 4, cursor.epoch, cursor.samples_taken), after.size());
  }
}

TEST(Steps, ChangedDataIsRefusedOrBeginsTheNextEpoch) {
  const Cursor saved{2, 7, 42, 100, "list", "data", "tok"};
  Cursor current = saved;
  current.samples_taken = 0;
  EXPECT_EQ(continue_from(saved, current, false), saved);
  current.data_fingerprint = "other";
  EXPECT_WMTP_ERROR(continue_from(saved, current, false), ErrorKind::config, "the data files");
  const Cursor next = continue_from(saved, current, true);
  EXPECT_EQ(next.epoch, 3u);
  EXPECT_EQ(next.samples_taken, 0u);
  EXPECT_EQ(next.data_fingerprint, "other");
}

TEST(Steps, FractionsOfEpochsAreIntegers) {
  EXPECT_EQ(samples_in_epoch(epochs_in_millionths(1.2), 1, 10), 2u);
  EXPECT_EQ(steps_left(epochs_in_millionths(1.2), 10, 4), 3u + 1);
  EXPECT_EQ(steps_left(epochs_in_millionths(2), 10, 4), 6u);
  EXPECT_EQ(steps_left(epochs_in_millionths(0.05), 10, 4), 0u);
  EXPECT_EQ(steps_left(epochs_in_millionths(0.3), 10, 4), 1u);
}

// Samples of every step over all ranks and micro-batches.
std::vector<std::size_t> step_sizes(const std::shared_ptr<const Dataset>& dataset, int world,
                                    std::uint32_t batch, std::uint32_t accumulation,
                                    double epochs) {
  std::map<std::uint64_t, std::size_t> sizes;
  for (int rank = 0; rank < world; ++rank) {
    TrainPlanner::Run run = run_of(world, rank, batch, accumulation);
    run.num_epochs_millionths = epochs_in_millionths(epochs);
    for (const MicroBatchPlan& plan : all_plans(dataset, run))
      sizes[plan.step] += plan.sequences.size();
  }
  std::vector<std::size_t> out;
  for (const auto& [step, size] : sizes) out.push_back(size);
  return out;
}

// Vector V47.
TEST(Steps, StepSizesDoNotDependOnTheShape) {
  const CorpusFixture fixture(10);
  const auto dataset = fixture.dataset();
  for (const auto& [world, batch, accumulation] :
       {std::tuple(2, 2u, 2u), {1, 8u, 1u}, {1, 1u, 8u}}) {
    EXPECT_EQ(step_sizes(dataset, world, batch, accumulation, 1.5),
              (std::vector<std::size_t>{8, 2, 5}));
    EXPECT_EQ(step_sizes(dataset, world, batch, accumulation, 1.2),
              (std::vector<std::size_t>{8, 2, 2}));
  }
  EXPECT_EQ(steps_left(epochs_in_millionths(1.5), 10, 8), 3u);
  EXPECT_EQ(steps_left(epochs_in_millionths(1.2), 10, 8), 3u);
}

// Vector V48.
TEST(Steps, PlacesOfMicroBatchesAndRanks) {
  const CorpusFixture fixture(10);
  const auto dataset = fixture.dataset();
  const Ids order = global_order(dataset, 1, 1, 1, 1.5);
  // Step 1 takes places 8 and 9 of epoch 0 (g = 2), step 2 the first 5 of epoch 1 (g = 5).
  const auto places = [&](int rank, std::uint64_t step) {
    TrainPlanner::Run run = run_of(2, rank, 2, 2);
    run.num_epochs_millionths = epochs_in_millionths(1.5);
    std::vector<Ids> micro_batches;
    for (const MicroBatchPlan& plan : all_plans(dataset, run))
      if (plan.step == step) micro_batches.push_back(ids_of(plan.sequences));
    return micro_batches;
  };
  EXPECT_EQ(places(0, 2), (std::vector<Ids>{{order[10], order[11]}, {order[14]}}));
  EXPECT_EQ(places(1, 2), (std::vector<Ids>{{order[12], order[13]}, {}}));
  EXPECT_EQ(places(0, 1), (std::vector<Ids>{{order[8], order[9]}}));
  EXPECT_EQ(places(1, 1), (std::vector<Ids>{{}}));
}

TEST(Steps, ResampledEpochsDifferAndCurriculumCountsPerPiece) {
  const CorpusFixture fixture;
  SamplingOptions sampling;
  sampling.n_samples = 20;
  sampling.resample_each_epoch = true;
  auto dataset = fixture.dataset(sampling);
  EXPECT_NE(dataset->list_hash(0), dataset->list_hash(1));
  EXPECT_EQ(dataset->list_hash(0), dataset->list_hash(0));
  sampling = {};
  sampling.n_samples = 20;
  sampling.curriculum_learning = true;
  sampling.difficulty_bins = {{"low", 0, 1}, {"high", 2, 4}};
  sampling.curriculum_schedule = {{0, 0.5, {{"low", 1}}}, {0.5, 1, {{"high", 1}}}};
  dataset = fixture.dataset(sampling);
  const Ids order = global_order(dataset, 1, 1, 1);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto difficulty =
        dataset->corpus().table().difficulty(static_cast<std::uint32_t>(order[i]));
    EXPECT_EQ(difficulty <= 1, i < 10) << i;
  }
  EXPECT_EQ(global_order(dataset, 3, 2, 1, 1, 0, 7), Ids(order.begin() + 7, order.end()));
}

}  // namespace
}  // namespace wmtp::data
