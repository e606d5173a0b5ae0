// Which weights are gathered when: prefetch, slots, kept units, the order of passes, and frozen
// weights stored in another dtype.
#include <ATen/ops/full_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "parallel/block_units.h"
#include "parallel/recording_communicator.h"
#include "support/expect_error.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::parallel {
namespace {

using test::kBlocks;
using test::make_units;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wmtp::test::RecordingCommunicator;

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
        runtime.forget_gathered();
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
  runtime.forget_gathered();
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
  runtime.forget_gathered();
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

// Each gather starts while the unit before it is still to be waited for, in the order of the pass:
// backward its own.
TEST_F(GathererTest, UnitsAreFetchedInTheOrderOfTheirUse) {
  Runtime& runtime = make(Strategy::full_shard, 1, 1);
  step();
  EXPECT_EQ(RecordingCommunicator::story(forward_),
            "+256 -256 +512 -512 +768 -768 +1024 -1024 +1280 -1280");
  runtime.forget_gathered();
  step();
  EXPECT_EQ(RecordingCommunicator::story(forward_),
            "+256 +512 -256 +768 -512 +1024 -768 +1280 -1024 -1280");
  // Blocks 4 and 3 still lie in the two slots.
  EXPECT_EQ(RecordingCommunicator::story(backward_), "+768 +512 -768 +256 -512 -256");
}

TEST_F(GathererTest, SlotsAreReusedAndNoMoreThanPrefetchNeeds) {
  for (const auto& [forward, backward, slots] : {std::tuple(0, 0, 2u), {1, 1, 2u}, {1, 3, 4u}}) {
    Runtime& runtime = make(Strategy::full_shard, forward, backward);
    std::set<const void*> places;
    for (int pass = 0; pass < 2; ++pass) {
      runtime.forget_gathered();
      runtime.begin_micro_batch(/*last=*/true);
      for (const bool is_backward : {false, true})
        for (int i = 1; i <= kBlocks; ++i) {
          const UnitId unit(is_backward ? kBlocks + 1 - i : i);
          places.insert(runtime.acquire(unit, is_backward).trained.data_ptr());
          runtime.release(unit);
        }
    }
    EXPECT_EQ(places.size(), slots) << forward << " " << backward;
  }
}

TEST_F(GathererTest, MoreUnitsThanSlotsAtOnceAreRefused) {
  Runtime& runtime = make(Strategy::full_shard, 0, 0);
  runtime.begin_micro_batch(/*last=*/true);
  runtime.acquire(UnitId(1), false);
  runtime.acquire(UnitId(2), false);
  EXPECT_WMTP_ERROR(runtime.acquire(UnitId(3), false), ErrorKind::internal, "gather slots");
}

// The root stands at both ends of a pass: one gather for all its uses, and no slot of the blocks.
TEST_F(GathererTest, KeptUnitsAreGatheredOnceAndStandOutsideTheOrder) {
  for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op}) {
    Runtime& runtime = make(strategy, 1, 1);
    step();
    use(0, true);
    use(0, false);
    EXPECT_THAT(group_.take(), IsEmpty()) << name_of(strategy);
    const void* place = runtime.acquire(UnitId(0), false).trained.data_ptr();
    runtime.release(UnitId(0));
    runtime.forget_gathered();
    runtime.begin_micro_batch(/*last=*/true);
    for (int unit = 1; unit <= kBlocks; ++unit) {
      const Tensor block = runtime.acquire(UnitId(unit), false).trained;
      EXPECT_NE(block.data_ptr(), place);
      use(0, false);  // in the midst of the pass: the order of the blocks is not disturbed
      runtime.release(UnitId(unit));
    }
    // One gather of the root besides those of the blocks.
    EXPECT_EQ(started(group_.take()).size(), 1u + kBlocks) << name_of(strategy);
    EXPECT_EQ(runtime.acquire(UnitId(0), false).trained.data_ptr(), place);
    runtime.release(UnitId(0));
  }
}

TEST_F(GathererTest, APassInAnotherOrderIsRefused) {
  Runtime& runtime = make(Strategy::full_shard, 1, 1);
  step();
  runtime.begin_micro_batch(/*last=*/true);
  use(1, false);
  EXPECT_WMTP_ERROR(runtime.acquire(UnitId(3), false), ErrorKind::internal, "another order");
  make(Strategy::full_shard, 1, 1);
  step();
  step();
  // Longer than the pass before.
  EXPECT_WMTP_ERROR(runtime_->acquire(UnitId(1), true), ErrorKind::internal, "another order");
}

TEST_F(GathererTest, EveryKindOfPassHasAnOrderOfItsOwn) {
  Runtime& runtime = make(Strategy::full_shard, 1, 1);
  step();
  for (int round = 0; round < 2; ++round) {
    runtime.forget_gathered();
    runtime.begin_evaluation(/*kind=*/2);
    group_.take();
    for (const int unit : {2, 4, 1}) use(unit, false);
    EXPECT_EQ(RecordingCommunicator::story(group_.take()),
              round == 0 ? "+512 -512 +1024 -1024 +256 -256" : "+512 +1024 -512 +256 -1024 -256");
  }
  runtime.forget_gathered();
  step();  // as it was before
  EXPECT_THAT(started(forward_), ElementsAre(256, 512, 768, 1024, 1280));
}

TEST_F(GathererTest, WeightsDoNotChangeWhileAUnitIsInUse) {
  Runtime& runtime = make(Strategy::full_shard, 1, 1);
  runtime.begin_micro_batch(/*last=*/true);
  runtime.acquire(UnitId(1), false);
  EXPECT_WMTP_ERROR(runtime.forget_gathered(), ErrorKind::internal, "in use");
}

TEST_F(GathererTest, WhatWasPrefetchedBeforeAChangeIsFetchedAgain) {
  Runtime& runtime = make(Strategy::full_shard, 2, 2);
  step();
  runtime.begin_micro_batch(/*last=*/true);
  use(1, false);  // 2 and 3 are on their way
  group_.take();
  runtime.fill([](const layout::ParamSpec&, std::int64_t, const Tensor& out) { out.fill_(7); });
  runtime.begin_micro_batch(/*last=*/true);
  for (int unit = 1; unit <= kBlocks; ++unit) {
    const Tensor whole = runtime.acquire(UnitId(unit), false).trained;
    EXPECT_EQ(whole.min().item<double>(), 7) << unit;
    EXPECT_EQ(whole.max().item<double>(), 7) << unit;
    runtime.release(UnitId(unit));
  }
  EXPECT_THAT(started(group_.take()), ElementsAre(256, 512, 768, 1024, 1280));
}

// On a CPU everything is in host memory anyway (with a GPU: tests/gpu/step_variants.py).
TEST_F(GathererTest, OffloadChangesNothingOnACpu) {
  std::vector<std::string> stories;
  std::vector<std::int64_t> bytes;
  for (const bool offload : {false, true}) {
    ParallelOptions options;
    options.cpu_offload = offload;
    EXPECT_FALSE(options.offloads());
    Runtime& runtime = make(make_units(), options);
    step();
    stories.push_back(RecordingCommunicator::story(forward_) + " | " +
                      RecordingCommunicator::story(backward_));
    bytes.push_back(runtime.state_bytes());
    bytes.push_back(runtime.buffer_bytes());
  }
  EXPECT_EQ(stories[0], stories[1]);
  EXPECT_EQ(bytes[0], bytes[2]);
  EXPECT_EQ(bytes[1], bytes[3]);
}

}  // namespace
}  // namespace wmtp::parallel
