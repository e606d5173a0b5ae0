// What a rank keeps of each unit: which part, in which dtype, and what it asks for to fill it.
#include "wmtp/parallel/unit_state.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/block_units.h"

namespace wmtp::parallel {
namespace {

using test::make_units;
using ::testing::ElementsAre;

// 300 trained elements in two parameters, 200 frozen ones.
std::vector<layout::UnitSpec> mixed_units() {
  return {{"mixed", {{"a", {100}}, {"b", {10, 20}}, {"f", {200}, /*trained=*/false}}}};
}

ParallelOptions with(Strategy strategy) {
  ParallelOptions options;
  options.strategy = strategy;
  return options;
}

// Fills every element with its place in its parameter; what was asked for, as texts.
std::vector<std::string> fill_with_places(std::vector<UnitState>& states,
                                          const ParallelOptions& options,
                                          const Placement& placement) {
  std::vector<std::string> asked;
  const ReadParam read = [&](const layout::ParamSpec& param, std::int64_t begin,
                             const Tensor& out) {
    EXPECT_EQ(out.scalar_type(), kFloat32);
    asked.push_back(param.name + " " + std::to_string(begin) + " " + std::to_string(out.numel()));
    out.copy_(at::arange(begin, begin + out.numel(), out.options()));
  };
  fill_unit_states(states, options, placement, {.values = read});
  return asked;
}

// Every range that is asked for gets a number of its own.
TEST(UnitStates, UnitsOfOneShapeAreAlikeWhereThatIsEnough) {
  std::vector<layout::UnitSpec> units = mixed_units();
  for (const char* name : {"second", "third"}) units.push_back({name, units.front().params});
  units[1].params[1].shape = {20, 10};
  const ParallelOptions options = with(Strategy::no_shard);
  const Placement placement = placement_of(options, 0, 1);
  std::vector<UnitState> states = make_unit_states(units, options, placement);
  int asked = 0;
  const ReadParam read = [&](const layout::ParamSpec&, std::int64_t, const Tensor& out) {
    out.fill_(++asked);
  };
  fill_unit_states(states, options, placement, {.values = read, .alike = true});
  EXPECT_EQ(asked, 6);
  EXPECT_TRUE(states[2].master.joined().equal(states[0].master.joined()));
  EXPECT_TRUE(states[2].frozen.equal(states[0].frozen));
  EXPECT_FALSE(states[1].master.joined().equal(states[0].master.joined()));
}

TEST(UnitStates, EachRankAsksOnlyForItsPart) {
  const ParallelOptions options = with(Strategy::full_shard);
  std::vector<UnitState> zero =
                             make_unit_states(mixed_units(), options, placement_of(options, 0, 2)),
                         one =
                             make_unit_states(mixed_units(), options, placement_of(options, 1, 2));
  // Shards of 256 of 300 trained elements, and of 128 of 200 frozen ones.
  EXPECT_THAT(fill_with_places(zero, options, placement_of(options, 0, 2)),
              ElementsAre("a 0 100", "b 0 156", "f 0 128"));
  EXPECT_THAT(fill_with_places(one, options, placement_of(options, 1, 2)),
              ElementsAre("b 156 44", "f 128 72"));
  ASSERT_EQ(one[0].master.numel(), 256);
  const Tensor master = one[0].master.joined();
  EXPECT_EQ(master[0].item<double>(), 156);
  EXPECT_EQ(master[43].item<double>(), 199);
  EXPECT_EQ(master.narrow(0, 44, 212).abs().max().item<double>(), 0) << "padding";
  EXPECT_EQ(one[0].frozen[71].item<double>(), 199);
  EXPECT_EQ(one[0].grad.numel(), 256);
}

TEST(UnitStates, WhatIsShardedFollowsTheStrategy) {
  const auto sizes = [](Strategy strategy) {
    const UnitState state =
        make_unit_states(mixed_units(), with(strategy), placement_of(with(strategy), 1, 2)).at(0);
    return std::pair(state.master.numel(), state.frozen.numel());
  };
  EXPECT_EQ(sizes(Strategy::full_shard), std::pair(std::int64_t{256}, std::int64_t{128}));
  EXPECT_EQ(sizes(Strategy::shard_grad_op), std::pair(std::int64_t{256}, std::int64_t{256}));
  EXPECT_EQ(sizes(Strategy::no_shard), std::pair(std::int64_t{384}, std::int64_t{256}));
}

TEST(UnitStates, ReplicasAreWholeOnEveryRank) {
  const ParallelOptions options = with(Strategy::no_shard);
  for (const int rank : {0, 1}) {
    std::vector<UnitState> states =
        make_unit_states(mixed_units(), options, placement_of(options, rank, 2));
    EXPECT_THAT(fill_with_places(states, options, placement_of(options, rank, 2)),
                ElementsAre("a 0 100", "b 0 200", "f 0 200"));
  }
}

// Where the optimizer keeps the compute dtype up to date, there is nothing to gather.
TEST(UnitStates, OnlyReplicasOfAnotherDtypeHaveACopy) {
  for (const Strategy strategy :
       {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard})
    for (const DType dtype : {kFloat32, kBFloat16}) {
      ParallelOptions options = with(strategy);
      options.param_dtype = dtype;
      std::vector<UnitState> states =
          make_unit_states(mixed_units(), options, placement_of(options, 0, 2));
      fill_with_places(states, options, placement_of(options, 0, 2));
      const UnitState& state = states[0];
      EXPECT_EQ(state.compute_dtype, dtype);
      ASSERT_EQ(state.copy.defined(), strategy == Strategy::no_shard && dtype == kBFloat16)
          << name_of(strategy);
      if (state.copy.defined()) {
        EXPECT_EQ(state.copy.scalar_type(), kBFloat16);
        EXPECT_TRUE(state.copy.equal(state.master.joined().to(kBFloat16)));
      }
    }
}

TEST(UnitStates, GradientsAreWideWhateverTheMasterIs) {
  std::vector<layout::UnitSpec> units = make_units();
  units[1].full_precision = true;
  ParallelOptions options;
  options.master_dtype = options.param_dtype = kBFloat16;
  std::vector<UnitState> states = make_unit_states(units, options, placement_of(options, 0, 2));
  fill_with_places(states, options, placement_of(options, 0, 2));
  EXPECT_EQ(states[2].master.dtype(), kBFloat16);
  EXPECT_EQ(states[2].grad.scalar_type(), kFloat32);
  // Units of full precision keep theirs.
  EXPECT_EQ(states[1].master.dtype(), kFloat32);
  EXPECT_EQ(states[1].compute_dtype, kFloat32);
  EXPECT_EQ(states[1].master.joined()[127].item<double>(), 127);
  options.master_dtype = options.param_dtype = kFloat64;
  EXPECT_EQ(make_unit_states(units, options, placement_of(options, 0, 2))[2].grad.scalar_type(),
            kFloat64);
}

TEST(UnitStates, FrozenWeightsAreStoredInTheirOwnDtypeAndHaveNoGradient) {
  std::vector<layout::UnitSpec> units = make_units(/*trained=*/false);
  units[1].full_precision = true;
  ParallelOptions options;
  options.frozen_dtype = kBFloat16;
  const std::vector<UnitState> states =
      make_unit_states(units, options, placement_of(options, 0, 2));
  for (const UnitState& state : states) {
    EXPECT_FALSE(state.master.defined());
    EXPECT_FALSE(state.grad.defined());
    EXPECT_EQ(state.frozen.scalar_type(), state.plan.full_precision ? kFloat32 : kBFloat16);
  }
}

}  // namespace
}  // namespace wmtp::parallel
