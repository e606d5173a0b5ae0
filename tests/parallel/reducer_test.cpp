// Gradients on their way home: slots in turn, micro-batches, no_sync, kept units, one rank and
// replicas.
#include "wmtp/parallel/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "parallel/block_units.h"
#include "parallel/recording_communicator.h"

namespace wmtp::parallel {
namespace {

using test::kBlocks;
using test::make_units;
using ::testing::Each;
using ::testing::IsEmpty;
using wmtp::test::RecordingCommunicator;

class ReducerTest : public ::testing::Test {
 protected:
  void make(const ParallelOptions& options, const std::vector<layout::UnitSpec>& units,
            int rank = 0, int world = 2) {
    reducer_.reset();
    const Placement place = placement_of(options, rank, world);
    const int shards = place.shard_world, replicas = place.num_replicas();
    group_ = std::make_unique<RecordingCommunicator>(place.shard_rank(), shards);
    replicas_ = std::make_unique<RecordingCommunicator>(place.replica(), replicas, *group_);
    states_ = make_unit_states(units, options, place);
    auto* within = shards > 1 ? group_.get() : nullptr;
    reducer_ = std::make_unique<Reducer>(
        states_, options,
        comm::ShardGroups{within, within, replicas > 1 ? replicas_.get() : nullptr});
  }
  void make(const ParallelOptions& options = {}) { make(options, make_units()); }

  // A place to add to, as a model makes it of a fresh one.
  Tensor open(int unit) {
    const OpenGrad grad = reducer_->open(UnitId(unit));
    if (grad.fresh && grad.flat.defined()) grad.flat.zero_();
    return grad.flat;
  }
  // Adds `value` to a unit's gradient, as a backward pass does.
  void add(int unit, double value) {
    open(unit).add_(value);
    reducer_->close(UnitId(unit));
  }
  // The blocks from the last to the first; block n gets n times `factor`.
  void backward(bool last, double factor = 1) {
    reducer_->begin_micro_batch(last);
    for (int unit = kBlocks; unit >= 1; --unit) add(unit, factor * unit);
  }
  // Both ranks' gradients of block n are n times `factor`.
  void expect_sums(double factor) {
    for (int unit = 1; unit <= kBlocks; ++unit) {
      EXPECT_EQ(grad(unit).min().item<double>(), 2 * factor * unit) << unit;
      EXPECT_EQ(grad(unit).max().item<double>(), 2 * factor * unit) << unit;
    }
  }
  const Tensor& grad(int unit) const { return states_.at(static_cast<std::size_t>(unit)).grad; }
  std::string story() { return RecordingCommunicator::story(group_->take()); }
  std::vector<std::string> kinds_started() {
    std::vector<std::string> kinds;
    for (const auto& event : group_->take())
      if (!event.is_wait) kinds.emplace_back(event.kind);
    return kinds;
  }

  std::unique_ptr<RecordingCommunicator> group_, replicas_;  // in one book
  std::vector<UnitState> states_;
  std::unique_ptr<Reducer> reducer_;
};

constexpr std::int64_t kRootBytes = 4 * 256, kLargestBytes = 4 * 1280;

// A slot is opened again only after its reduction was waited for; until then the other is filled.
TEST_F(ReducerTest, TwoSlotsInTurn) {
  for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op}) {
    ParallelOptions options;
    options.strategy = strategy;
    make(options);
    EXPECT_EQ(reducer_->buffer_bytes(), kRootBytes + 2 * kLargestBytes);
    reducer_->begin_step();
    backward(/*last=*/true);
    EXPECT_EQ(story(), "+1280 +1024 -1280 +768 -1024 +512 -768 +256") << name_of(strategy);
    reducer_->finish();
    EXPECT_EQ(story(), "-256 -512");
    expect_sums(1);
  }
}

TEST_F(ReducerTest, NeighboursNeverShareASlot) {
  make();
  reducer_->begin_step();
  reducer_->begin_micro_batch(/*last=*/true);
  std::vector<const void*> places;
  for (int unit = kBlocks; unit >= 1; --unit) {
    places.push_back(open(unit).data_ptr());
    reducer_->close(UnitId(unit));
  }
  for (std::size_t i = 0; i + 1 < places.size(); ++i) EXPECT_NE(places[i], places[i + 1]);
  EXPECT_EQ(std::set<const void*>(places.begin(), places.end()).size(), 2u);
}

TEST_F(ReducerTest, MicroBatchesAddUpAndAStepBeginsAnew) {
  make();
  for (int step = 0; step < 2; ++step) {
    reducer_->begin_step();
    backward(/*last=*/false, 1);
    backward(/*last=*/true, 10);
    reducer_->finish();
    EXPECT_EQ(kinds_started().size(), 2u * kBlocks);  // sharded: a reduction each time
    expect_sums(11);
  }
}

TEST_F(ReducerTest, NoSyncReducesOnceAStep) {
  ParallelOptions options;
  options.no_sync = true;
  make(options);
  // A whole gradient of every unit.
  EXPECT_EQ(reducer_->buffer_bytes(), kRootBytes + 4 * 256 * (1 + 2 + 3 + 4 + 5));
  for (int step = 0; step < 2; ++step) {
    reducer_->begin_step();
    backward(/*last=*/false, 1);
    EXPECT_THAT(group_->take(), IsEmpty());
    backward(/*last=*/true, 10);
    reducer_->finish();
    EXPECT_EQ(kinds_started().size(), 1u * kBlocks);
    expect_sums(11);
  }
}

// The root's gradient has its first part at the end of a pass and its last at the beginning: other
// units come and go in the slots meanwhile.
TEST_F(ReducerTest, KeptUnitsStayOpenOverTheOthers) {
  make();
  reducer_->begin_step();
  reducer_->begin_micro_batch(/*last=*/true);
  Tensor root = open(0);
  root.add_(3);
  backward(/*last=*/true);
  EXPECT_EQ(root.min().item<double>(), 3);
  EXPECT_EQ(root.max().item<double>(), 3);
  root.add_(4);
  reducer_->close(UnitId(0));
  reducer_->finish();
  EXPECT_EQ(grad(0).min().item<double>(), 2 * 7);
  EXPECT_EQ(grad(0).max().item<double>(), 2 * 7);
  expect_sums(1);
}

TEST_F(ReducerTest, EachRankGetsItsPartAndPaddingStaysZero) {
  // Shards of 256, 256 and 128 elements; the third unit takes the slot of the first.
  const std::vector<layout::UnitSpec> units{
      {"a", {{"a.w", {500}}}}, {"b", {{"b.w", {300}}}}, {"c", {{"c.w", {200}}}}};
  for (const int rank : {0, 1}) {
    make({}, units, rank);
    reducer_->begin_step();
    add(0, 100);
    add(1, 100);
    Tensor whole = open(2);
    ASSERT_EQ(whole.numel(), 200);
    whole.narrow(0, 0, 128).add_(1);
    whole.narrow(0, 128, 72).add_(5);
    reducer_->close(UnitId(2));
    reducer_->finish();
    ASSERT_EQ(grad(2).numel(), 128);
    const std::int64_t used = rank == 0 ? 128 : 72;
    EXPECT_EQ(grad(2).narrow(0, 0, used).min().item<double>(), rank == 0 ? 2 : 10);
    EXPECT_EQ(grad(2).narrow(0, 0, used).max().item<double>(), rank == 0 ? 2 : 10);
    if (used < 128) {
      EXPECT_EQ(grad(2).narrow(0, used, 128 - used).abs().max().item<double>(), 0);
    }
  }
}

TEST_F(ReducerTest, ReplicasAddInPlaceAndReduceOnceAStep) {
  ParallelOptions options;
  options.strategy = Strategy::no_shard;
  for (const DType wire : {kFloat32, kBFloat16}) {
    options.reduce_dtype = wire;
    make(options);
    EXPECT_EQ(reducer_->buffer_bytes(), 0);
    EXPECT_TRUE(open(1).is_alias_of(grad(1)));
    for (int step = 0; step < 2; ++step) {
      reducer_->begin_step();
      backward(/*last=*/false, 1);
      EXPECT_THAT(group_->take(), IsEmpty());
      backward(/*last=*/true, 10);
      reducer_->finish();
      const auto kinds = kinds_started();
      EXPECT_EQ(kinds.size(), 1u * kBlocks);
      EXPECT_THAT(kinds, Each("all_reduce"));
      expect_sums(11);
    }
  }
}

// Six ranks in groups of two. A shard (half of the unit) crosses to the other groups when the next
// unit is closed, and is waited for when the second after it crosses.
TEST_F(ReducerTest, ShardsCrossToTheOtherGroupsBehindTheNextUnits) {
  ParallelOptions options;
  options.strategy = Strategy::hybrid_shard;
  options.shard_group_size = 2;
  make(options, make_units(), /*rank=*/3, /*world=*/6);
  EXPECT_EQ(reducer_->buffer_bytes(), kRootBytes + 2 * kLargestBytes);
  reducer_->begin_step();
  backward(/*last=*/true);
  EXPECT_EQ(story(),
            "+1280 +1024 -1280 +640 +768 -1024 +512 +512 -768 -640 +384 +256 -512 -512 +256");
  reducer_->finish();
  EXPECT_EQ(story(), "-256 -384 +128 -128 -256");
  expect_sums(3);  // of three groups of two
}

// Once a step, with the micro-batches before it; also where a copy crosses, in fewer bits.
TEST_F(ReducerTest, ShardsCrossOnceAStep) {
  ParallelOptions options;
  options.strategy = Strategy::hybrid_shard;
  options.shard_group_size = 2;
  for (const bool no_sync : {false, true})
    for (const DType wire : {kFloat32, kBFloat16}) {
      options.no_sync = no_sync;
      options.reduce_dtype = wire;
      make(options, make_units(), 0, 4);
      for (int step = 0; step < 2; ++step) {
        reducer_->begin_step();
        backward(/*last=*/false, 1);
        backward(/*last=*/true, 10);
        reducer_->finish();
        const auto kinds = kinds_started();
        EXPECT_EQ(std::ranges::count(kinds, "all_reduce"), kBlocks) << no_sync;
        EXPECT_EQ(std::ranges::count(kinds, "reduce_scatter"), (no_sync ? 1 : 2) * kBlocks);
        expect_sums(2 * 11);
      }
    }
}

TEST_F(ReducerTest, OneRankNeedsNeitherBuffersNorCollectives) {
  for (const Strategy strategy :
       {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard}) {
    ParallelOptions options;
    options.strategy = strategy;
    make(options, make_units(), 0, /*world=*/1);
    EXPECT_EQ(reducer_->buffer_bytes(), 0);
    for (int step = 0; step < 2; ++step) {
      reducer_->begin_step();
      backward(/*last=*/false, 1);
      backward(/*last=*/true, 1);
      reducer_->finish();
      expect_sums(1);  // of two micro-batches, not of two ranks
    }
    EXPECT_THAT(group_->take(), IsEmpty()) << name_of(strategy);
  }
}

// What lies in a gradient from before is never read: the first writer of a step is told so, and
// what nobody wrote is zero.
TEST_F(ReducerTest, TheFirstWriterOfAStepWrites) {
  struct Case {
    Strategy strategy;
    int world;
    bool no_sync, fresh_in_second;
  };
  for (const Case& c :
       {Case{Strategy::full_shard, 1, false, false}, Case{Strategy::no_shard, 2, false, false},
        Case{Strategy::full_shard, 2, false, true},  // a reduction each time
        Case{Strategy::full_shard, 2, true, false}}) {
    ParallelOptions options;
    options.strategy = c.strategy;
    options.no_sync = c.no_sync;
    make(options, make_units(), 0, c.world);
    for (int step = 0; step < 2; ++step) {
      reducer_->begin_step();
      for (const bool last : {false, true}) {
        reducer_->begin_micro_batch(last);
        const OpenGrad grad = reducer_->open(UnitId(1));
        EXPECT_EQ(grad.fresh, !last || c.fresh_in_second) << name_of(c.strategy) << c.world;
        grad.fresh ? grad.flat.fill_(1) : grad.flat.add_(1);
        reducer_->close(UnitId(1));
      }
      reducer_->finish();
      EXPECT_EQ(grad(1).min().item<double>(), 2.0 * c.world);
      EXPECT_EQ(grad(1).max().item<double>(), 2.0 * c.world);
      EXPECT_EQ(grad(2).abs().max().item<double>(), 0);  // never opened
      grad(1).fill_(NAN), grad(2).fill_(NAN);
    }
  }
}

TEST_F(ReducerTest, FrozenUnitsHaveNoGradient) {
  make({}, make_units(/*trained=*/false));
  EXPECT_EQ(reducer_->buffer_bytes(), 0);
  reducer_->begin_step();
  for (int unit = 0; unit <= kBlocks; ++unit) {
    EXPECT_FALSE(open(unit).defined());
    reducer_->close(UnitId(unit));
  }
  reducer_->finish();
  EXPECT_THAT(group_->take(), IsEmpty());
}

TEST_F(ReducerTest, UnitsOfFullPrecisionAreNotRoundedOnTheWire) {
  std::vector<layout::UnitSpec> units = make_units();
  units[2].full_precision = true;
  ParallelOptions options;
  options.reduce_dtype = kBFloat16;
  make(options, units);
  reducer_->begin_step();
  const double third = 1.0 / 3;
  for (const int unit : {1, 2}) {
    Tensor whole = open(unit);
    EXPECT_EQ(whole.scalar_type(), unit == 2 ? kFloat32 : kBFloat16);
    whole.add_(third);
    reducer_->close(UnitId(unit));
  }
  reducer_->finish();
  EXPECT_EQ(grad(2).max().item<double>(), 2 * static_cast<double>(static_cast<float>(third)));
  EXPECT_NE(grad(1).max().item<double>(), grad(2).max().item<double>());
  EXPECT_NEAR(grad(1).max().item<double>(), 2 * third, 0x1p-8);
}

}  // namespace
}  // namespace wmtp::parallel
