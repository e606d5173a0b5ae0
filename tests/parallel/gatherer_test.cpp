// Which weights are gathered when: prefetch, slots, and frozen weights stored in another dtype.
#include <ATen/ops/full_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/recording_communicator.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::parallel {
namespace {

using test::RecordingCommunicator;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kBlocks = 5;

// A root and five blocks of 256, 512, ... elements: shards are rounded up to 128.
std::vector<layout::UnitSpec> make_units(bool trained = true) {
  std::vector<layout::UnitSpec> units{{"root", {{"root.w", {256}, trained}}, /*kept=*/true}};
  for (int block = 0; block < kBlocks; ++block)
    units.push_back({"block" + std::to_string(block),
                     {{"block" + std::to_string(block) + ".w", {256 * (block + 1)}, trained}}});
  return units;
}

class GathererTest : public ::testing::Test {
 protected:
  Runtime& make(Strategy strategy, int forward, int backward) {
    ParallelOptions options;
    options.strategy = strategy;
    options.prefetch_forward = forward;
    options.prefetch_backward = backward;
    return make(make_units(), options);
  }
  Runtime& make(const std::vector<layout::UnitSpec>& units, const ParallelOptions& options) {
    runtime_ = std::make_unique<Runtime>(units, options, Groups{&group_, &group_});
    runtime_->fill([](const layout::ParamSpec& param, std::int64_t, const Tensor& out) {
      out.fill_(static_cast<double>(param.numel()) + 0.3);
    });
    return *runtime_;
  }

  // A step of one micro-batch; the gathers of each half go to `forward_` and `backward_`.
  void step() {
    runtime_->begin_micro_batch(/*last=*/true);
    use(0, false);
    group_.take();
    for (int unit = 1; unit <= kBlocks; ++unit) use(unit, false);
    forward_ = group_.take();
    for (int unit = kBlocks; unit >= 1; --unit) use(unit, true);
    backward_ = group_.take();
  }
  void use(int unit, bool backward) {
    const UnitWeights weights = runtime_->acquire(UnitId(unit), backward);
    const Tensor& found = weights.trained.defined() ? weights.trained : weights.frozen;
    // Reused slots hold the unit that was asked for.
    const double wanted = static_cast<double>(found.numel()) + 0.3;
    EXPECT_NEAR(found.min().item<double>(), wanted, 0.5) << unit;
    EXPECT_NEAR(found.max().item<double>(), wanted, 0.5) << unit;
    runtime_->release(UnitId(unit));
  }
  static std::vector<std::int64_t> started(
      const std::vector<RecordingCommunicator::Event>& events) {
    std::vector<std::int64_t> sizes;
    for (const auto& event : events)
      if (!event.is_wait) sizes.push_back(event.numel);
    return sizes;
  }

  RecordingCommunicator group_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<RecordingCommunicator::Event> forward_, backward_;
};

TEST_F(GathererTest, BothShardedStrategiesPrefetchTheForward) {
  for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op})
    for (const int depth : {0, 1, 2, 4}) {
      Runtime& runtime = make(strategy, depth, 1);
      step();  // the order of a pass is learnt
      EXPECT_EQ(RecordingCommunicator::most_in_flight(forward_), 1);
      for (int more = 0; more < 2; ++more) {
        runtime.weights_changed();
        step();
        // The unit at work and those ahead of it; all five in their order.
        EXPECT_EQ(RecordingCommunicator::most_in_flight(forward_), 1 + depth)
            << name_of(strategy) << " " << depth;
        EXPECT_THAT(started(forward_), ElementsAre(256, 512, 768, 1024, 1280)) << name_of(strategy);
      }
    }
}

TEST_F(GathererTest, ShardGradOpGathersOnceAStep) {
  Runtime& runtime = make(Strategy::shard_grad_op, 1, 1);
  step();
  EXPECT_THAT(started(backward_), IsEmpty());
  step();  // a second micro-batch
  EXPECT_THAT(started(forward_), IsEmpty());
  runtime.weights_changed();
  step();
  EXPECT_THAT(started(forward_), ElementsAre(256, 512, 768, 1024, 1280));
  EXPECT_THAT(started(backward_), IsEmpty());
}

TEST_F(GathererTest, FullShardGathersAgainInBackwardAndReusesItsSlots) {
  Runtime& runtime = make(Strategy::full_shard, 1, 2);
  // The largest block three times (one at work, two ahead), and the root.
  constexpr std::int64_t kGathers = 3 * 1280 + 256, kReductions = 2 * 1280 + 256;
  EXPECT_EQ(runtime.buffer_bytes(), 4 * (kGathers + kReductions));
  step();
  runtime.weights_changed();
  step();
  // The last units of the forward are still there.
  EXPECT_THAT(started(backward_), ElementsAre(512, 256));
  EXPECT_GT(RecordingCommunicator::most_in_flight(backward_), 1);
}

TEST_F(GathererTest, FrozenWeightsAreStoredInTheirOwnDtype) {
  for (const Strategy strategy :
       {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard}) {
    ParallelOptions options;
    options.strategy = strategy;
    make(make_units(/*trained=*/false), options);
    const std::int64_t as_computed = runtime_->state_bytes();
    options.frozen_dtype = kBFloat16;
    Runtime& runtime = make(make_units(/*trained=*/false), options);
    EXPECT_EQ(2 * runtime.state_bytes(), as_computed) << name_of(strategy);
    runtime.begin_evaluation();
    for (int unit = 0; unit <= kBlocks; ++unit) {
      const Tensor whole = runtime.acquire(UnitId(unit), false).frozen;
      EXPECT_EQ(whole.scalar_type(), kFloat32);
      const Tensor rounded =
          at::full_like(whole, static_cast<double>(whole.numel()) + 0.3).to(kBFloat16);
      EXPECT_TRUE(whole.equal(rounded.to(kFloat32))) << name_of(strategy) << " " << unit;
      runtime.release(UnitId(unit));
    }
    // The root's and two slots, not a second copy of everything.
    EXPECT_EQ(runtime.buffer_bytes(), (256 + 2 * 1280) * 4) << name_of(strategy);
  }
}

TEST_F(GathererTest, TheComputeDtypeIsUsedWhereItLies) {
  ParallelOptions options;
  options.strategy = Strategy::no_shard;
  options.frozen_dtype = kFloat32;
  Runtime& runtime = make(make_units(/*trained=*/false), options);
  EXPECT_EQ(runtime.buffer_bytes(), 0);
  EXPECT_TRUE(runtime.acquire(UnitId(1), false).frozen.is_alias_of(runtime.states()[1].frozen));
}

}  // namespace
}  // namespace wmtp::parallel
