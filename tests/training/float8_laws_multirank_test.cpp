// Float8 over ranks. Scales are those of a micro-batch and of the whole weight, so a micro-batch
// computes the same bits wherever it is dealt, in every strategy and recompute level; only the
// order in which gradients are added up may differ, and where nothing is added up nothing does.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/multi_process.h"
#include "support/runs/law_run.h"
#include "support/tolerance.h"
#include "training/stage_cases.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/session.h"

namespace wmtp::test {
namespace {

using kernels::Float8Recipe;
using parallel::Strategy;

constexpr Float8Recipe kRecipesOverRanks[] = {Float8Recipe::tensorwise, Float8Recipe::rowwise};
constexpr int kFloat8Steps = 2;

struct Float8Trace {
  double first_loss = 0, first_tokens = 0;
  std::vector<Tensor> first_grads, end;  // whole units
};

Float8Trace float8_alone(LawLayout layout) {
  const auto gather = comm::make_single("gather", c10::Device(c10::kCPU));
  const auto reduce = comm::make_single("reduce", c10::Device(c10::kCPU));
  layout.strategy = Strategy::no_shard, layout.recompute = model::Recompute::none;
  LawRun run(tiny_model(), layout, {gather.get(), reduce.get()});
  Float8Trace trace;
  for (int step = 0; step < kFloat8Steps; ++step) {
    const training::StepResult result = run.step();
    if (step > 0) continue;
    trace.first_loss = result.loss, trace.first_tokens = result.num_tokens;
    for (std::size_t u = 0; u < run.num_units(); ++u)
      trace.first_grads.push_back(run.grad(u).values.clone());
  }
  trace.end = masters(run);
  return trace;
}

Tensor theirs(const LawRun::Part& mine, const Tensor& whole) {
  return whole.narrow(0, mine.begin, mine.values.numel());
}

// The orders of a sum over T tokens are 2^-24 sqrt(T) of its size apart (law_bounds.h).
void expect_first_step(LawRun& run, const training::StepResult& result, const Float8Trace& alone) {
  const double order = 0x1p-24 * std::sqrt(alone.first_tokens);
  EXPECT_WITHIN(std::abs(result.loss - alone.first_loss), order * alone.first_loss);
  for (std::size_t u = 0; u < run.num_units(); ++u) {
    const auto mine = run.grad(u);
    const Tensor whole = alone.first_grads[u].to(at::kDouble);
    EXPECT_WITHIN(mine.values.to(at::kDouble).sub(theirs(mine, whole)).norm().item<double>(),
                  order * whole.norm().item<double>())
        << "gradient of unit " << u;
  }
}

// All micro-batches have targets: the first step is one process's but for the order of sums, and a
// rerun has the same bits.
void expect_same_sums(const LawLayout& layout, const parallel::Groups& groups,
                      const Float8Trace& alone) {
  LawRun run(tiny_model(), layout, groups), again(tiny_model(), layout, groups);
  for (int step = 0; step < kFloat8Steps; ++step) {
    const training::StepResult result = run.step();
    EXPECT_TRUE(result.applied);
    again.step();
    if (step == 0) expect_first_step(run, result, alone);
  }
  EXPECT_TRUE(equal(masters(run), masters(again))) << "a rerun differs";
}

// One micro-batch has targets: every step has the bits of one process.
void expect_same_bits(const LawLayout& layout, const parallel::Groups& groups,
                      const Float8Trace& alone) {
  LawRun run(tiny_model(), layout, groups);
  for (int step = 0; step < kFloat8Steps; ++step) EXPECT_TRUE(run.step().applied);
  for (std::size_t u = 0; u < run.num_units(); ++u) {
    const auto mine = run.master(u);
    EXPECT_TRUE(mine.values.equal(theirs(mine, alone.end[u]))) << "weights of unit " << u;
  }
}

std::vector<LawLayout> float8_layouts(int world) {
  using model::Recompute;
  std::vector<LawLayout> layouts{{.strategy = Strategy::no_shard, .recompute = Recompute::light},
                                 {.strategy = Strategy::shard_grad_op},
                                 {.strategy = Strategy::full_shard},
                                 {.strategy = Strategy::full_shard, .recompute = Recompute::block}};
  if (half_of(world) > 1)
    layouts.push_back({.strategy = Strategy::hybrid_shard, .shard_group_size = half_of(world)});
  return layouts;
}

void check_recipe(Float8Recipe recipe, const parallel::Groups& groups) {
  const int world = groups.reduce->world();
  model::LoraConfig lora;
  lora.rank = 4, lora.alpha = 8;
  for (const bool adapted : {false, true}) {
    LawLayout base{.num_micro_batches = world, .float8 = recipe, .only_first = true};
    if (adapted) base.lora = lora;
    const Float8Trace one = float8_alone(base);
    LawLayout summing = base;
    summing.only_first = false, summing.num_micro_batches = 2 * world;
    const Float8Trace all = float8_alone(summing);
    for (LawLayout layout : float8_layouts(world)) {
      // Adapters add nothing to how weights are sharded.
      if (adapted && layout.strategy != Strategy::full_shard) continue;
      SCOPED_TRACE(fmt::format("recipe {}, {}, recompute {}, {}", int(recipe),
                               name_of(layout.strategy), int(layout.recompute),
                               adapted ? "lora" : "all weights"));
      layout.float8 = recipe, layout.lora = base.lora;
      layout.num_micro_batches = base.num_micro_batches, layout.only_first = true;
      expect_same_bits(layout, groups, one);
      layout.num_micro_batches = summing.num_micro_batches, layout.only_first = false;
      if (layout.recompute == model::Recompute::block) expect_same_sums(layout, groups, all);
    }
  }
}

void float8_law(int ranks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = ranks, .timeout_s = 600}));
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  for (const Float8Recipe recipe : kRecipesOverRanks)
    check_recipe(recipe, groups_of_test(*session));
  session->check_order();
  session->finish();
}

TEST(Float8LawMultirank, OneRank) {
  float8_law(1);
}
TEST(Float8LawMultirank, TwoRanks) {
  float8_law(2);
}
TEST(Float8LawMultirank, ThreeRanks) {
  float8_law(3);
}
TEST(Float8LawMultirank, FourRanks) {
  float8_law(4);
}

// One step of every stage in all its modes. A rank may have no sample at all: products of no rows.
TEST(Float8LawMultirank, EveryStageIsLikeOneProcess) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  for (const StageCase& one : stage_cases())
    for (const Float8Recipe recipe : kRecipesOverRanks)
      for (const int samples : {2, 5}) {
        if (samples == 2 && one.name != "baseline") continue;
        SCOPED_TRACE(fmt::format("{}, recipe {}, {} samples", one.name, int(recipe), samples));
        StageSetup setup = one.setup;
        setup.float8 = recipe, setup.batch_size = 2;
        const StageSteps steps = steps_of(one, {samples});
        const StageTrace alone = run_alone(setup, steps);
        setup.strategy = Strategy::full_shard;
        StageRun run(setup, groups_of_test(*session));
        expect_same_results(run.step(steps[0]), alone.results[0]);
        for (std::size_t u = 0; u < run.num_units(); ++u) {
          const auto mine = run.grad(u);
          const Tensor whole = alone.first_grads[u];
          const Tensor part = whole.narrow(0, mine.begin, mine.values.numel());
          EXPECT_WITHIN(mine.values.sub(part).norm().item<double>(),
                        1e-5 * whole.norm().item<double>())
              << "gradient of unit " << u;
        }
      }
  session->finish();
}

}  // namespace
}  // namespace wmtp::test
