// What a fault inside a step does to the other ranks. Each has its control: the healthy run.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/multi_process.h"
#include "support/runs/law_run.h"
#include "wmtp/comm/session.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/time.h"
#include "wmtp/models/model_source.h"

namespace wmtp::test {
namespace {

constexpr int kSignalled = 137;  // 128 + SIGKILL

struct FaultyRank {
  explicit FaultyRank(const std::string& spec) {
    at::set_num_threads(1);
    failpoint::configure({.spec = spec, .rank = worker_rank(), .log_path = {}});
    session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
    session->connect();
  }
  LawRun run(parallel::Strategy strategy) {
    return LawRun(model::preset("micro"),
                  {.strategy = strategy, .num_micro_batches = session->world()},
                  groups_of_test(*session));
  }
  std::unique_ptr<comm::ProcessGroupSession> session;
};

TEST(StepFaultsMultirank, NanOnOneRankUpdatesNoRank) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  FaultyRank rank("step.loss:rank=1:nth=2=damage;step.loss:rank=0:nth=5=damage");
  for (auto strategy : {parallel::Strategy::full_shard, parallel::Strategy::no_shard}) {
    LawRun run = rank.run(strategy);
    const auto start = masters(run);
    EXPECT_TRUE(run.step().applied);  // the control: a healthy step moves the weights
    const auto first = masters(run);
    EXPECT_FALSE(equal(start, first));
    EXPECT_FALSE(run.step().applied);
    EXPECT_TRUE(equal(first, masters(run)));
    EXPECT_EQ(run.model().optimizer().applied_steps().item<std::int64_t>(), 1);
    EXPECT_TRUE(run.step().applied);
  }
  rank.session->finish();
}

// A whole rank without valid tokens takes part with zeros and changes nothing for the others.
TEST(StepFaultsMultirank, ARankWithoutTargetsTakesPart) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  FaultyRank rank("");
  LawRun run =
      rank.run(parallel::Strategy::full_shard);  // the last micro-batch, rank 2's, has no target
  for (int step = 0; step < 3; ++step) {
    const auto result = run.step();
    EXPECT_TRUE(result.applied);
    EXPECT_TRUE(std::isfinite(result.loss));
  }
  rank.session->finish();
}

void killed_in(const std::string& point) {
  if (!is_worker()) {
    const auto results = launch_ranks({.ranks = 2});
    EXPECT_EQ(results[1].code, kSignalled);
    EXPECT_EQ(results[0].code, 0) << results[0].output;
    return;
  }
  FaultyRank rank(point + ":rank=1:nth=3=kill");
  LawRun run = rank.run(parallel::Strategy::full_shard);
  const auto start = Clock::now();
  try {
    for (int step = 0; step < 50; ++step) run.step();
    ADD_FAILURE() << "the death of rank 1 went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(rank.session->agree_on_failure(error).code, static_cast<int>(ExitCode::retry));
  }
  EXPECT_LT(seconds_since(start), 60);
}

TEST(StepFaultsMultirank, KilledInForward) {
  killed_in("step.forward.mid");
}
TEST(StepFaultsMultirank, KilledInBackward) {
  killed_in("step.backward.mid");
}
TEST(StepFaultsMultirank, KilledBeforeReduce) {
  killed_in("step.reduce.before");
}
TEST(StepFaultsMultirank, KilledBeforeApply) {
  killed_in("step.apply.before");
}

// Two units of one size, gathered in another order on rank 1: nothing hangs, the numbers would be
// wrong, and the comparison after the first step names the rank and the unit.
TEST(StepFaultsMultirank, UnitsInAnotherOrderAreNamed) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  FaultyRank rank("");
  const parallel::Groups groups = groups_of_test(*rank.session);
  parallel::Runtime runtime({{"layers.0", {{"a", {4096}}}}, {"layers.1", {{"b", {4096}}}}}, {},
                            groups);
  runtime.begin_evaluation();
  const bool odd = worker_rank() == 1;
  for (const int unit : {odd ? 1 : 0, odd ? 0 : 1}) {
    runtime.acquire(UnitId(unit), false);
    runtime.release(UnitId(unit));
  }
  try {
    rank.session->check_order();
    ADD_FAILURE() << "the swapped units went unnoticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1: collective 00002 of group gather all_gather"),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("layers.1"), std::string::npos) << error.what();
    EXPECT_EQ(static_cast<int>(exit_code(error.kind())), 78);
  }
  rank.session->finish();
}

// Every parameter arrives whole on rank 0, equal to what was drawn.
TEST(StateDictMultirank, FullStateIsWhatWasDrawn) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  FaultyRank rank("");
  const model::ModelConfig config = model::preset("micro");
  const parallel::ReadParam draw = models::random_weights(config, 3);
  for (auto strategy : {parallel::Strategy::full_shard, parallel::Strategy::no_shard}) {
    LawRun run = rank.run(strategy);
    std::int64_t seen = 0;
    run.model().runtime().gather_full([&](const layout::ParamSpec& param, const Tensor& whole) {
      Tensor expected = at::empty({param.numel()}, at::kFloat);
      draw(param, 0, expected);
      EXPECT_TRUE(whole.equal(expected.view(param.shape))) << param.name;
      seen += param.numel();
    });
    EXPECT_EQ(seen, worker_rank() == 0 ? config.total_parameters() : 0);
  }
  rank.session->finish();
}

}  // namespace
}  // namespace wmtp::test
