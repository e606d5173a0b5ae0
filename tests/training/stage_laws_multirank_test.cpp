// The laws of the stages over ranks: the same samples dealt to 2 and 3 of them, some of which have
// none in a step, give what one process gives, for every strategy.
#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/multi_process.h"
#include "support/runs/law_run.h"
#include "support/tolerance.h"
#include "training/stage_cases.h"
#include "wmtp/comm/session.h"

namespace wmtp::test {
namespace {

using parallel::Strategy;

// With 2 samples a rank: a rank runs out in the middle of a step, and has nothing from the start.
const std::vector<int> kUnevenSizes{5, 1, 4};
constexpr int kBatchSize = 2;

struct Ranks {
  Ranks() {
    at::set_num_threads(1);
    session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
    session->connect();
  }
  parallel::Groups groups() { return groups_of_test(*session); }
  std::unique_ptr<comm::ProcessGroupSession> session;
};

double distance(Ranks& ranks, StageRun& run, const StageRun::Part& mine, const Tensor& whole) {
  const bool counts = run.model().runtime().counts_once();
  const Tensor theirs = whole.narrow(0, mine.begin, mine.values.numel());
  const double local =
      counts ? mine.values.to(at::kDouble).sub(theirs).pow(2).sum().item<double>() : 0;
  const Tensor sum = at::tensor({local}, at::kDouble);
  ranks.session->reduce_group().all_reduce(sum).wait();
  return std::sqrt(sum.item<double>());
}

void expect_like_alone(Ranks& ranks, const StageSetup& setup, const StageSteps& steps,
                       const StageTrace& alone) {
  StageRun run(setup, ranks.groups());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    SCOPED_TRACE("step " + std::to_string(s));
    expect_same_results(run.step(steps[s]), alone.results[s]);
    for (std::size_t u = 0; s == 0 && u < run.num_units(); ++u)
      EXPECT_WITHIN(distance(ranks, run, run.grad(u), alone.first_grads[u]),
                    1e-5 * alone.first_grads[u].norm().item<double>())
          << "gradient of unit " << u;
  }
  expect_same_numbers(run.validate(steps.front()), alone.validation);
  for (std::size_t u = 0; u < run.num_units(); ++u)
    EXPECT_WITHIN(distance(ranks, run, run.master(u), alone.end[u]),
                  1e-3 * alone.end[u].sub(alone.start[u]).norm().item<double>())
        << "weights of unit " << u;
}

void like_alone(int num_ranks,
                const std::vector<Strategy>& strategies = {
                    Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard}) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = num_ranks, .timeout_s = 600}));
  Ranks ranks;
  for (const StageCase& one : stage_cases()) {
    const StageSteps steps = steps_of(one, kUnevenSizes);
    StageSetup setup = one.setup;
    setup.batch_size = kBatchSize;
    const StageTrace alone = run_alone(setup, steps);
    for (const auto strategy : strategies) {
      SCOPED_TRACE(one.name + " " + std::string(name_of(strategy)));
      setup.strategy = strategy;
      setup.shard_group_size = half_of(num_ranks);
      setup.shard_frozen = strategy == Strategy::full_shard || strategy == Strategy::hybrid_shard;
      expect_like_alone(ranks, setup, steps, alone);
    }
  }
  ranks.session->check_order();
  ranks.session->finish();
}

TEST(StageLawsMultirank, TwoRanks) {
  like_alone(2);
}
TEST(StageLawsMultirank, ThreeRanks) {
  like_alone(3);
}

TEST(StageLawsMultirank, FourRanksInGroups) {
  like_alone(4, {Strategy::hybrid_shard});
}

// scope ranks: R ranks of b samples select and whiten like one process of R * b.
TEST(StageLawsMultirank, AScopeOverRanksIsOneLargeMicroBatch) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  Ranks ranks;
  for (const StageCase& one : stage_cases()) {
    if (!one.grouped) continue;
    const StageSteps steps = steps_of(one, kUnevenSizes);
    StageSetup setup = one.setup;
    setup.rho1.scope_ranks = setup.verifiable.scope_ranks = true;
    setup.batch_size = 2 * kBatchSize;
    const StageTrace alone = run_alone(setup, steps);
    setup.batch_size = kBatchSize;
    for (const auto strategy : {Strategy::no_shard, Strategy::full_shard}) {
      SCOPED_TRACE(one.name + " " + std::string(name_of(strategy)));
      setup.strategy = strategy;
      expect_like_alone(ranks, setup, steps, alone);
    }
  }
  ranks.session->finish();
}

// The last sample is rank 1's alone.
TEST(StageLawsMultirank, NanOnOneRankIsABadStepOnAll) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  Ranks ranks;
  for (const StageCase& one : stage_cases()) {
    if (!one.cached) continue;
    SCOPED_TRACE(one.name);
    StageSteps steps = steps_of(one, {4, 4});
    StageRow& broken = steps[1].back()[0];
    ASSERT_GT(broken.ids.size(), static_cast<std::size_t>(broken.prompt) + 1);
    broken.value.back() = broken.ref_nll.back() = std::numeric_limits<float>::quiet_NaN();
    StageSetup setup = one.setup;
    setup.batch_size = kBatchSize, setup.strategy = Strategy::full_shard;
    StageRun run(setup, ranks.groups());
    EXPECT_TRUE(run.step(steps[0]).applied);
    std::vector<Tensor> before;
    for (std::size_t u = 0; u < run.num_units(); ++u)
      before.push_back(run.master(u).values.clone());
    const Tensor ema = run.ema().state_3().clone();
    const auto result = run.step(steps[1]);
    EXPECT_TRUE(result.bad && !result.applied);
    for (std::size_t u = 0; u < run.num_units(); ++u)
      EXPECT_TRUE(run.master(u).values.equal(before[u]));
    EXPECT_TRUE(run.ema().state_3().equal(ema));
    EXPECT_TRUE(run.step(steps[0]).applied);
  }
  ranks.session->finish();
}

}  // namespace
}  // namespace wmtp::test
