// What the next step acquires first is gathered behind the update: when it starts, how much of it,
// and that passes of other kinds, refilled weights and frozen units find the right weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "parallel/block_units.h"
#include "parallel/recording_communicator.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::parallel {
namespace {

using test::kBlocks;
using test::make_units;
using wmtp::test::RecordingCommunicator;

class EarlyGatherTest : public ::testing::Test {
 protected:
  void make(const ParallelOptions& options, std::vector<layout::UnitSpec> units = make_units()) {
    group_.take();
    runtime_ = std::make_unique<Runtime>(units, options, Groups{&group_, &group_});
    fill(0);
    value_ = 0;
  }
  static ParallelOptions with(Strategy strategy, int forward, int backward = 1) {
    ParallelOptions options;
    options.strategy = strategy;
    options.prefetch_forward = forward;
    options.prefetch_backward = backward;
    return options;
  }
  void fill(double value) {
    runtime_->fill(
        [&](const layout::ParamSpec&, std::int64_t, const Tensor& out) { out.fill_(value); });
  }

  // One micro-batch: forward, and backward in reverse.
  void pass() {
    runtime_->begin_micro_batch(/*last=*/true);
    use(0, false);
    for (int unit = 1; unit <= kBlocks; ++unit) use(unit, false);
    for (int unit = kBlocks; unit >= 1; --unit) use(unit, true);
  }
  // A gather that was not waited for, or was made of older weights, shows here.
  void use(int unit, bool backward) {
    const UnitWeights weights = runtime_->acquire(UnitId(unit), backward);
    for (const Tensor* part : {&weights.trained, &weights.frozen}) {
      if (!part->defined()) continue;
      const double wanted = part == &weights.trained ? value_ : 0;
      EXPECT_EQ(part->min().item<double>(), wanted) << "unit " << unit;
      EXPECT_EQ(part->max().item<double>(), wanted) << "unit " << unit;
    }
    runtime_->release(UnitId(unit));
  }
  // What an optimizer does; "u" marks an update in the story of gathers.
  std::string update() {
    group_.take();
    runtime_->begin_update();
    ++value_;
    std::string story = RecordingCommunicator::story(group_.take());
    for (std::size_t unit = 0; unit < runtime_->states().size(); ++unit) {
      UnitState& state = runtime_->states()[unit];
      if (!state.master.defined()) continue;
      runtime_->update_unit(UnitId(static_cast<int>(unit)),
                            [&] { state.master.values().fill_(value_); });
      story += (story.empty() ? "u" : " u");
      if (const auto events = group_.take(); !events.empty())
        story += " " + RecordingCommunicator::story(events);
    }
    return story;
  }

  RecordingCommunicator group_;
  std::unique_ptr<Runtime> runtime_;
  double value_ = 0;
};

constexpr Strategy kSharded[] = {Strategy::full_shard, Strategy::shard_grad_op};

// The root's 256 elements and the blocks' 256, 512, ...
TEST_F(EarlyGatherTest, TheFirstUnitsAreGatheredBehindTheUpdatesOfTheOthers) {
  for (const Strategy strategy : kSharded) {
    const auto story = [&](int depth) {
      make(with(strategy, depth));
      pass();
      return update();
    };
    EXPECT_EQ(story(1), "u +256 u +256 u u u u") << name_of(strategy);
    EXPECT_EQ(story(2), "u +256 u +256 u +512 u u u") << name_of(strategy);
    EXPECT_EQ(story(8), "u +256 u +256 u +512 u +768 u +1024 u +1280") << name_of(strategy);
  }
}

TEST_F(EarlyGatherTest, WithoutPrefetchNothingIsGatheredAhead) {
  for (const Strategy strategy : kSharded) {
    make(with(strategy, 0, 0));
    for (int step = 0; step < 3; ++step) {
      pass();
      EXPECT_EQ(RecordingCommunicator::most_in_flight(group_.take()), 1) << name_of(strategy);
      EXPECT_EQ(update(), "u u u u u u") << name_of(strategy);
    }
  }
}

TEST_F(EarlyGatherTest, NothingIsGatheredTwice) {
  for (const Strategy strategy : kSharded)
    for (const int depth : {0, 1, 3}) {
      make(with(strategy, depth, depth));
      std::size_t events = 0;  // of the last step: gathers that were started or waited for
      for (int step = 0; step < 3; ++step) {
        pass();
        events = group_.take().size();
        const std::string story = update();
        events += static_cast<std::size_t>(std::count(story.begin(), story.end(), '+'));
      }
      // As many as where none is early.
      make(with(strategy, depth, depth));
      pass();
      runtime_->forget_gathered();
      group_.take();
      pass();
      EXPECT_EQ(events, group_.take().size()) << name_of(strategy) << " " << depth;
    }
}

TEST_F(EarlyGatherTest, AReplicaGathersNothing) {
  for (const DType dtype : {kFloat32, kBFloat16}) {
    ParallelOptions options = with(Strategy::no_shard, 2);
    options.param_dtype = dtype;
    make(options);
    pass();
    EXPECT_EQ(update(), "u u u u u u");
  }
}

TEST_F(EarlyGatherTest, PassesOfOtherKindsFindTheSameWeights) {
  for (const Strategy strategy : kSharded)
    for (const int depth : {0, 1, 2, 4}) {
      make(with(strategy, depth));
      for (int step = 0; step < 3; ++step) {
        pass();
        update();
        runtime_->begin_evaluation(/*kind=*/1);
        for (const int unit : {5, 2, 0, 4, 1, 3}) use(unit, false);
        // Two units at once, with no more slots than one unit ahead needs.
        runtime_->begin_evaluation(/*kind=*/2);
        runtime_->acquire(UnitId(3), false);
        use(4, false);
        runtime_->release(UnitId(3));
      }
    }
}

// The slot of a gather under way is taken by another pass: the gather ends first, or it would
// write over what comes after it.
TEST_F(EarlyGatherTest, ASlotIsTakenOverOnlyWhenItsGatherHasEnded) {
  make(with(Strategy::full_shard, 1));
  pass();
  update();  // block 0's gather is under way, in the first of two slots
  runtime_->begin_evaluation();
  runtime_->acquire(UnitId(3), false);
  use(4, false);
  EXPECT_EQ(RecordingCommunicator::story(group_.take()), "+768 -768 -256 +1024 -1024");
}

TEST_F(EarlyGatherTest, FillingEndsTheGathersUnderWay) {
  for (const Strategy strategy : kSharded) {
    make(with(strategy, 2));
    pass();
    update();
    group_.take();
    std::optional<std::string> story;
    runtime_->fill([&](const layout::ParamSpec&, std::int64_t, const Tensor& out) {
      // Before the first master is written to.
      if (!story) story = RecordingCommunicator::story(group_.take());
      out.fill_(7);
    });
    EXPECT_EQ(story, "-256 -256 -512") << name_of(strategy);
    value_ = 7;
    pass();
  }
}

TEST_F(EarlyGatherTest, UpdatingAgainEndsTheGathersUnderWay) {
  make(with(Strategy::full_shard, 2));
  pass();
  update();
  runtime_->begin_update();
  EXPECT_EQ(RecordingCommunicator::story(group_.take()), "-256 -256 -512");
}

// Adapters: the root and the last block are frozen, the others have both parts.
TEST_F(EarlyGatherTest, FrozenPartsAreGatheredWithTheirUnits) {
  std::vector<layout::UnitSpec> units = make_units();
  units.front().params.front().trained = false;
  units.back().params.front().trained = false;
  for (int block = 1; block < kBlocks; ++block)
    units[static_cast<std::size_t>(block)].params.push_back(
        {"frozen", {256 * (10 + block)}, /*trained=*/false});
  make(with(Strategy::full_shard, 1), units);
  pass();
  // What is frozen alone waits for no update.
  EXPECT_EQ(update(), "+256 u +256 +2816 u u u");
  pass();
  make(with(Strategy::shard_grad_op, 1), units);
  pass();
  EXPECT_EQ(update(), "u +256 u u u");  // frozen weights are whole on every rank
  pass();
}

// A kept unit that only another kind of pass has used is not gathered for every step from then on.
TEST_F(EarlyGatherTest, AKeptUnitThatStepsDoNotUseIsGatheredOnDemand) {
  std::vector<layout::UnitSpec> units = make_units();
  units.push_back({"value_head", {{"value_head.w", {2048}}}, /*kept=*/true});
  make(with(Strategy::full_shard, 1), units);
  pass();
  EXPECT_EQ(update(), "u +256 u +256 u u u u u");
  runtime_->begin_evaluation();
  use(kBlocks + 1, false);
  pass();
  EXPECT_EQ(update(), "u +256 u +256 u u u u u +2048");
  pass();
  EXPECT_EQ(update(), "-2048 u +256 u +256 u u u u u");
}

}  // namespace
}  // namespace wmtp::parallel
