// Trained weights in one tensor and in planes: what is computed with, what is read and written, and
// that units keep planes where bf16 is computed with.
#include "wmtp/parallel/master.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "parallel/block_units.h"
#include "parallel/recording_communicator.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::parallel {
namespace {

using test::make_units;
using wmtp::test::RecordingCommunicator;

// Ties among them: 1 + i / 256 has a last bit where bf16 has none.
Tensor thirds_and_ties(std::int64_t begin, std::int64_t size) {
  const Tensor places = at::arange(begin, begin + size, at::kFloat);
  return at::where(places.remainder(2).eq(0), places.div(3), places.div(256).add(1));
}

Tensor upper_plane(const Tensor& whole) {
  Tensor upper = at::empty(whole.sizes(), whole.options().dtype(kBFloat16));
  kernels::round_to_compute(whole, upper);
  return upper;
}

TEST(Master, PlanesHoldWhatOneTensorHolds) {
  const Tensor values = thirds_and_ties(0, 1000);
  const Master whole(at::zeros({1000}, at::kFloat)),
      planes = Master::in_planes(1000, at::TensorOptions());
  EXPECT_FALSE(Master().defined());
  EXPECT_EQ(Master().bytes(), 0);
  for (const Master& master : {whole, planes}) {
    EXPECT_EQ(master.bytes(), 4000);
    EXPECT_EQ(master.dtype(), kFloat32);
    master.narrow({100, 700}).write(values.narrow(0, 100, 600));
    const Tensor read = at::empty({300}, at::kFloat);
    master.narrow({50, 350}).read_into(read);
    EXPECT_EQ(read.narrow(0, 0, 50).abs().max().item<float>(), 0);
    EXPECT_TRUE(read.narrow(0, 50, 250).equal(values.narrow(0, 100, 250)));
    EXPECT_TRUE(master.narrow({100, 700}).joined().equal(values.narrow(0, 100, 600)));
  }
  EXPECT_EQ(whole.joined().data_ptr(), whole.values().data_ptr()) << "nothing is copied";
  EXPECT_TRUE(planes.narrow({100, 700}).values().equal(upper_plane(values.narrow(0, 100, 600))));
  EXPECT_EQ(planes.tensors().size(), 2);
}

ParallelOptions split_options(Strategy strategy) {
  ParallelOptions options;
  options.strategy = strategy;
  options.param_dtype = kBFloat16;
  options.split_masters = true;
  return options;
}

TEST(Master, UnitsHavePlanesWhereBf16IsComputedWith) {
  ParallelOptions options = split_options(Strategy::full_shard);
  EXPECT_TRUE(options.splits(/*full_precision=*/false));
  EXPECT_FALSE(options.splits(/*full_precision=*/true));
  for (const DType compute : {kFloat32, kFloat16}) {
    options.param_dtype = compute;
    EXPECT_FALSE(options.splits(false)) << wmtp::name_of(compute);
  }
  options.param_dtype = kBFloat16;
  options.master_dtype = kBFloat16;
  EXPECT_FALSE(options.splits(false));
  std::vector<layout::UnitSpec> units = make_units();
  units[1].full_precision = true;
  options = split_options(Strategy::no_shard);
  const auto states = make_unit_states(units, options, placement_of(options, 0, 2));
  for (const UnitState& state : states) {
    EXPECT_EQ(state.master.lower().defined(), !state.plan.full_precision);
    EXPECT_FALSE(state.copy.defined()) << "the upper plane is computed with";
  }
}

class SplitUnits : public ::testing::Test {
 protected:
  Runtime& make(const ParallelOptions& options, int world) {
    group_ = std::make_unique<RecordingCommunicator>(0, world);
    runtime_ = std::make_unique<Runtime>(make_units(), options, Groups{group_.get(), group_.get()});
    runtime_->fill([](const layout::ParamSpec&, std::int64_t begin, const Tensor& out) {
      out.copy_(thirds_and_ties(begin, out.numel()));
    });
    return *runtime_;
  }
  Tensor weights_of(int unit) {
    runtime_->begin_evaluation();
    const Tensor found = runtime_->acquire(UnitId(unit), false).trained;
    runtime_->release(UnitId(unit));
    return found;
  }

  std::unique_ptr<RecordingCommunicator> group_;
  std::unique_ptr<Runtime> runtime_;
};

// However a master is kept, its weights are computed with in the same bits.
TEST_F(SplitUnits, AreComputedWithLikeOthers) {
  for (const Strategy strategy :
       {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard})
    for (const bool split : {false, true}) {
      ParallelOptions options = split_options(strategy);
      options.split_masters = split;
      make(options, 2);
      const std::int64_t own = strategy == Strategy::no_shard ? 512 : 256;
      const Tensor wanted = upper_plane(thirds_and_ties(0, own));
      EXPECT_TRUE(weights_of(2).narrow(0, 0, own).equal(wanted)) << name_of(strategy) << split;
      EXPECT_FALSE(wanted.equal(thirds_and_ties(0, own).to(kBFloat16))) << "ties are among them";
    }
}

// Alone, or as replicas: neither a copy nor a slot, and what is used is the plane itself.
TEST_F(SplitUnits, NeedNoCopyWhereTheyAreWhole) {
  for (const auto& [strategy, world] :
       {std::pair{Strategy::no_shard, 2}, std::pair{Strategy::full_shard, 1},
        std::pair{Strategy::shard_grad_op, 1}}) {
    Runtime& runtime = make(split_options(strategy), world);
    std::int64_t numel = 0;
    for (const UnitState& state : runtime.states()) numel += state.master.numel();
    EXPECT_EQ(runtime.state_bytes(), numel * (4 + 4)) << "master and gradient";
    EXPECT_EQ(runtime.buffer_bytes(), 0) << name_of(strategy);
    EXPECT_EQ(weights_of(3).data_ptr(), runtime.states()[3].master.values().data_ptr());
  }
  ParallelOptions copied = split_options(Strategy::no_shard);
  copied.split_masters = false;
  Runtime& control = make(copied, 2);
  EXPECT_EQ(control.states()[3].copy.scalar_type(), kBFloat16);
}

// What is exported is the joined number, not what is computed with.
TEST_F(SplitUnits, AreGatheredWholeForExports) {
  Runtime& runtime = make(split_options(Strategy::no_shard), 2);
  int taken = 0;
  runtime.gather_full([&](const layout::ParamSpec& param, const Tensor& whole) {
    EXPECT_EQ(whole.scalar_type(), kFloat32);
    EXPECT_TRUE(whole.equal(thirds_and_ties(0, param.numel()))) << param.name;
    ++taken;
  });
  EXPECT_EQ(taken, 1 + test::kBlocks);
}

}  // namespace
}  // namespace wmtp::parallel
