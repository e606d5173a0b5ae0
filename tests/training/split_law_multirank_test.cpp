// Masters in planes train to the bits of masters in one tensor where bf16 is computed with,
// whatever the strategy and the number of ranks: losses, masters and moments. And what keeping
// planes saves.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/multi_process.h"
#include "support/runs/bf16_run.h"
#include "support/runs/law_run.h"

namespace wmtp::test {
namespace {

using optim::Recipe;
using parallel::Strategy;

constexpr int kSplitSteps = 3;

void expect_equal_runs(Bf16Run& split, Bf16Run& whole) {
  for (int step = 0; step < kSplitSteps; ++step) {
    const training::StepResult a = split.step(), b = whole.step();
    EXPECT_EQ(a.loss, b.loss) << step;
    EXPECT_EQ(a.grad_norm, b.grad_norm) << step;
    EXPECT_TRUE(a.applied && b.applied);
  }
  EXPECT_TRUE(equal(split.masters(), whole.masters()));
  EXPECT_TRUE(equal(split.moments(), whole.moments()));
}

void split_law(int ranks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = ranks, .timeout_s = 300}));
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  const parallel::Groups groups = groups_of_test(*session);
  std::vector<Bf16Layout> layouts;
  for (const auto strategy : {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard})
    layouts.push_back({.strategy = strategy});
  layouts.push_back({.lora = true});
  if (half_of(ranks) > 1)
    layouts.push_back({.strategy = Strategy::hybrid_shard, .shard_group_size = half_of(ranks)});
  for (Bf16Layout layout : layouts) {
    SCOPED_TRACE(fmt::format("{} lora {}", name_of(layout.strategy), layout.lora));
    layout.split_masters = false;
    Bf16Run whole(bf16_config(), layout, groups);
    const std::vector<Tensor> before = whole.masters();
    layout.split_masters = true;
    Bf16Run split(bf16_config(), layout, groups);
    expect_equal_runs(split, whole);
    // The control; the last rank may hold padding alone.
    const bool moved = !equal(before, whole.masters());
    EXPECT_TRUE(moved || worker_rank() > 0);
  }
  session->finish();
}

TEST(SplitLawMultirank, OneRank) {
  split_law(1);
}
TEST(SplitLawMultirank, TwoRanks) {
  split_law(2);
}
TEST(SplitLawMultirank, ThreeRanks) {
  split_law(3);
}
TEST(SplitLawMultirank, FourRanks) {
  split_law(4);
}

class SplitRun : public ::testing::Test {
 protected:
  std::unique_ptr<Bf16Run> make(Recipe recipe, Strategy strategy,
                                std::optional<bool> split_masters = {}) {
    return std::make_unique<Bf16Run>(
        bf16_config(),
        Bf16Layout{.strategy = strategy, .recipe = recipe, .split_masters = split_masters},
        parallel::Groups{gather_.get(), reduce_.get()});
  }
  static std::int64_t bytes(Bf16Run& run) {
    return run.model().runtime().state_bytes() + run.model().runtime().buffer_bytes() +
           run.model().optimizer().state_bytes();
  }

  std::unique_ptr<comm::Communicator> gather_ = comm::make_single("g", c10::Device(c10::kCPU)),
                                      reduce_ = comm::make_single("r", c10::Device(c10::kCPU));
};

// 12 and 8 bytes of a parameter beside the gradient's 4; a master in one tensor has 2 more for its
// copy. The value head is fp32 throughout.
TEST_F(SplitRun, KeepsNoCopy) {
  std::int64_t rounded = 0, wide = 0;
  const auto whole = make(Recipe::fp32, Strategy::no_shard, false);
  for (const parallel::UnitState& state : whole->model().runtime().states())
    (state.plan.full_precision ? wide : rounded) += state.master.numel();
  EXPECT_EQ(bytes(*whole), (16 + 2) * rounded + 16 * wide);
  for (const Strategy strategy : {Strategy::no_shard, Strategy::full_shard}) {
    EXPECT_EQ(bytes(*make(Recipe::fp32, strategy)), 16 * (rounded + wide));
    EXPECT_EQ(bytes(*make(Recipe::bf16_moments, strategy)), 12 * rounded + 16 * wide);
  }
}

// A bad step leaves planes and moments alone.
TEST_F(SplitRun, ABadStepChangesNothing) {
  const auto run = make(Recipe::fp32, Strategy::full_shard);
  run->step();
  const auto masters = run->masters(), moments = run->moments();
  run->model().runtime().states()[1].master.values()[3].fill_(INFINITY);
  run->model().runtime().forget_gathered();
  const training::StepResult result = run->step();
  EXPECT_TRUE(result.bad);
  EXPECT_FALSE(equal(masters, run->masters())) << "the damage itself";
  EXPECT_TRUE(equal(moments, run->moments()));
}

}  // namespace
}  // namespace wmtp::test
