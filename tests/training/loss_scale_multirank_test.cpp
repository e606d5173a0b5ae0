// Loss scaling in a step: an overflow on one rank is everybody's, and scaling changes no number.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/multi_process.h"
#include "support/runs/law_run.h"
#include "wmtp/comm/session.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::test {
namespace {

constexpr int kScaleSteps = 6;

// Steps 2 and 3 of both runs are spoiled on rank 1 alone. With scales that are powers of two every
// other number of the run stays the same to the last bit.
TEST(LossScaleMultirank, OverflowOnOneRankHalvesEverywhere) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 300}));
  at::set_num_threads(1);
  failpoint::configure({.spec = "step.grad_norm:rank=1:nth=2=damage;"
                                "step.grad_norm:rank=1:nth=3=damage;"
                                "step.grad_norm:rank=1:nth=8=damage;"
                                "step.grad_norm:rank=1:nth=9=damage",
                        .rank = worker_rank(),
                        .log_path = {}});
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  const parallel::Groups groups{&session->gather_group(), &session->reduce_group()};
  const model::ModelConfig config = model::preset("micro");
  LawLayout layout{.num_micro_batches = 4};

  layout.loss_scale = optim::LossScaleSettings{.growth_interval = 3};
  LawRun scaled(config, layout, groups);
  const std::vector<double> scales{65536, 65536, 32768, 16384, 16384, 16384};
  for (int step = 0; step < kScaleSteps; ++step) {
    const bool spoiled = step == 1 || step == 2;
    const auto before = masters(scaled);
    const training::StepResult result = scaled.step();
    EXPECT_EQ(result.loss_scale, scales[static_cast<std::size_t>(step)]);
    EXPECT_EQ(result.applied, !spoiled);
    EXPECT_EQ(result.overflow, spoiled);
    EXPECT_EQ(equal(before, masters(scaled)), spoiled);
  }
  EXPECT_EQ(scaled.model().loss_scale()->state(), (optim::LossScale::State{32768, 0}));

  layout.loss_scale.reset();
  LawRun plain(config, layout, groups);
  for (int step = 0; step < kScaleSteps; ++step) {
    const training::StepResult result = plain.step();
    EXPECT_EQ(result.applied, step != 1 && step != 2);
    EXPECT_FALSE(result.overflow);  // without a scale it is a bad step
  }
  EXPECT_TRUE(equal(masters(scaled), masters(plain)));
  session->finish();
}

// A loss that is not finite is no fault of the scale: a bad step, and the scale stays.
TEST(LossScaleMultirank, ABadLossIsABadStep) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 300}));
  at::set_num_threads(1);
  failpoint::configure(
      {.spec = "step.loss:rank=0:nth=1=damage", .rank = worker_rank(), .log_path = {}});
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  LawLayout layout{.num_micro_batches = 2};
  layout.loss_scale = optim::LossScaleSettings{};
  LawRun run(model::preset("micro"), layout, {&session->gather_group(), &session->reduce_group()});
  const training::StepResult result = run.step();
  EXPECT_FALSE(result.applied);
  EXPECT_FALSE(result.overflow);
  EXPECT_EQ(run.model().loss_scale()->state(), (optim::LossScale::State{65536, 0}));
  EXPECT_TRUE(run.step().applied);
  session->finish();
}

}  // namespace
}  // namespace wmtp::test
