// HYBRID_SHARD at its ends: one group of all ranks is FULL_SHARD, groups of one rank are NO_SHARD,
// to the last bit. Between them the laws over ranks hold (parallel_law_multirank_test.cpp).
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/multi_process.h"
#include "training/law_layouts.h"
#include "wmtp/comm/session.h"

namespace wmtp::test {
namespace {

constexpr int kSteps = 4;

struct Trace {
  std::vector<double> losses, norms;
  std::vector<Tensor> weights, gradients;
  std::int64_t bytes = 0;
};

Trace traced(const LawLayout& layout, const parallel::Groups& groups) {
  LawRun run(model::preset("micro"), layout, groups);
  Trace trace;
  for (int i = 0; i < kSteps; ++i) {
    const training::StepResult result = run.step();
    trace.losses.push_back(result.loss);
    trace.norms.push_back(result.grad_norm);
  }
  trace.weights = masters(run);
  for (std::size_t unit = 0; unit < run.num_units(); ++unit)
    trace.gradients.push_back(run.grad(unit).values.clone());
  trace.bytes = run.model().runtime().state_bytes() + run.model().runtime().buffer_bytes();
  return trace;
}

void expect_the_same(const LawLayout& layout, int group_size, parallel::Strategy strategy,
                     const parallel::Groups& groups) {
  LawLayout hybrid = layout, other = layout;
  hybrid.strategy = parallel::Strategy::hybrid_shard;
  hybrid.shard_group_size = group_size;
  other.strategy = strategy;
  const Trace a = traced(hybrid, groups), b = traced(other, groups);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_TRUE(equal(a.weights, b.weights));
  EXPECT_TRUE(equal(a.gradients, b.gradients));
  // A master that is not computed with is cast on its way; NO_SHARD keeps a copy of it instead.
  if (strategy != parallel::Strategy::no_shard || layout.recipe == optim::Recipe::fp32) {
    EXPECT_EQ(a.bytes, b.bytes);
  }
}

void expect_its_ends(int ranks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = ranks, .timeout_s = 300}));
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  const parallel::Groups groups{&session->gather_group(), &session->reduce_group()};
  model::LoraConfig lora;
  lora.rank = 4, lora.alpha = 8;
  const std::vector<NamedLayout> layouts{
      {"one micro-batch", {.num_micro_batches = ranks}},
      {"accumulation", {.num_micro_batches = 3 * ranks}},
      {"no_sync", {.num_micro_batches = 3 * ranks, .no_sync = true}},
      {"bf16_sr", {.num_micro_batches = 3 * ranks, .recipe = optim::Recipe::bf16_sr}},
      {"lora", {.num_micro_batches = 3 * ranks, .lora = lora}},
      {"loss scale",
       {.num_micro_batches = ranks, .loss_scale = optim::LossScaleSettings{1024, 2}}}};
  for (const NamedLayout& one : layouts) {
    SCOPED_TRACE(one.name);
    expect_the_same(one.layout, ranks, parallel::Strategy::full_shard, groups);
    expect_the_same(one.layout, 1, parallel::Strategy::no_shard, groups);
  }
  session->finish();
}

TEST(HybridShardMultirank, OneGroupIsFullShardAndGroupsOfOneAreNoShardOnTwoRanks) {
  expect_its_ends(2);
}
TEST(HybridShardMultirank, OneGroupIsFullShardAndGroupsOfOneAreNoShardOnThreeRanks) {
  expect_its_ends(3);
}

}  // namespace
}  // namespace wmtp::test
