// Replayed steps of the stages beside baseline (training/step_graphs.h): all that changes from step
// to step on the host reaches a graph, and what the host keeps is the same behind it.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "training/stage_cases.h"
#include "wmtp/comm/groups.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::test {
namespace {

using losses::ValueLossType;
using models::BatchShape;
using training::Whiten;

const c10::Device kGraphedGpu(c10::kCUDA, 0);

void add_graphed_critics(std::vector<StageCase>& cases) {
  StageSetup lambda{.stage = StageKind::critic};
  lambda.critic.loss.type = ValueLossType::lambda_return;
  lambda.critic.loss.reduction = losses::ValueReduction::token;
  lambda.critic.lambda_schedule.warmup_steps = 1, lambda.critic.lambda_schedule.decay_steps = 8;
  cases.push_back({"critic lambda by token", lambda});
  StageSetup pairs{.stage = StageKind::critic};
  pairs.critic.pairs = pairs.critic.backbone_learns = true;
  cases.push_back({.name = "critic mse of pairs", .setup = pairs, .pairs = true});
  pairs.critic.loss.type = ValueLossType::pairwise_ranking;
  cases.push_back({.name = "critic pairs trained", .setup = pairs, .pairs = true});
}

void add_graphed_weights(std::vector<StageCase>& cases) {
  const StageSetup plain{.stage = StageKind::verifiable};
  for (const auto terminal : {weighting::Terminal::reward, weighting::Terminal::monte_carlo}) {
    StageSetup gae = plain;
    gae.verifiable.td.mode = weighting::TdMode::gae, gae.verifiable.td.terminal = terminal;
    gae.verifiable.td.lambda = 1, gae.verifiable.whiten = Whiten::ema;
    cases.push_back({"gae", gae, /*cached=*/true});
  }
  StageSetup live = plain;
  live.frozen_seed = 9, live.verifiable.whiten = Whiten::batch;
  live.verifiable.scope_ranks = true;
  live.verifiable.normalization = losses::Normalization::weights_joint;
  cases.push_back({"td0 live", live});
  StageSetup joint = plain;
  joint.joint = true;
  joint.verifiable.value_loss.type = ValueLossType::lambda_return;
  joint.verifiable.lambda_schedule.warmup_steps = 1;
  joint.verifiable.lambda_schedule.decay_steps = 8;
  joint.verifiable.control = training::WeightControl::shuffled;
  cases.push_back({"joint lambda shuffled", joint});
}

void add_graphed_selections(std::vector<StageCase>& cases) {
  for (const bool scope_ranks : {false, true}) {
    StageSetup rho1{.stage = StageKind::rho1};
    rho1.rho1.scope_ranks = scope_ranks;
    rho1.rho1.mode = weighting::Rho1Mode::difficult;
    if (!scope_ranks) rho1.rho1.normalization = losses::Normalization::tokens;
    cases.push_back({.name = "rho1 difficult", .setup = rho1, .cached = true});
  }
}

std::vector<StageCase> cases_of(StageKind stage) {
  std::vector<StageCase> cases;
  add_graphed_critics(cases);
  add_graphed_weights(cases);
  add_graphed_selections(cases);
  std::ranges::move(stage_cases(), std::back_inserter(cases));
  std::erase_if(cases, [stage](const StageCase& one) { return one.setup.stage != stage; });
  return cases;
}

// The same number of tokens: other ones in other documents, another sample without a response, and
// other rewards and signals.
std::vector<StageSample> samples_of(const StageCase& one, int step) {
  std::vector<StageSample> samples = random_samples(8, 5, one.pairs);
  for (StageSample& sample : samples)
    for (StageRow& row : sample) {
      for (std::int32_t& id : row.ids) id = (id + step) % 64;
      if (!one.pairs) row.reward = static_cast<float>((row.sample_id + (step / 2)) % 2);
    }
  StageRow& silent = samples[static_cast<std::size_t>(step % 8)][0];
  silent.prompt = static_cast<std::int32_t>(silent.ids.size());
  if (one.pairs)  // side by side, but no pair
    for (StageRow& row : samples[static_cast<std::size_t>((2 * step + 3) % 8)]) row.role = kSingle;
  std::ranges::rotate(samples, samples.begin() + step % 8);
  if (one.cached) cache_signals(samples, static_cast<std::uint64_t>(20 + step));
  return samples;
}

// Empty documents, and rows without a target: neither is in a sum, a selection or a normaliser.
TEST(RoundedStages, ChangeNothingButTheOrderOfSums) {
  for (const StageKind stage : {StageKind::critic, StageKind::verifiable, StageKind::rho1})
    for (StageCase one : cases_of(stage)) {
      SCOPED_TRACE(one.name);
      const StageSteps steps = steps_of(one, {8, 3, 15});
      const StageTrace exact = run_alone(one.setup, steps);
      one.setup.shape = BatchShape::rounded;
      expect_same(run_alone(one.setup, steps), exact);
    }
}

class StageGraphsOnGpu : public ::testing::TestWithParam<StageKind> {
 protected:
  void SetUp() override {
    if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
    gather_ = comm::make_single("gather", kGraphedGpu);
    reduce_ = comm::make_single("reduce", kGraphedGpu);
  }
  std::unique_ptr<StageRun> make_run(StageSetup setup, bool cuda_graphs) {
    setup.device = kGraphedGpu;
    setup.shape = BatchShape::rounded;
    setup.cuda_graphs = cuda_graphs;
    setup.bf16 = true;
    setup.epoch = 2;
    return std::make_unique<StageRun>(setup, parallel::Groups{gather_.get(), reduce_.get()});
  }

  std::unique_ptr<comm::Communicator> gather_, reduce_;
};

void expect_same_step(const training::StepResult& found, const training::StepResult& expected) {
  EXPECT_TRUE(found.applied);
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_EQ(found.grad_norm, expected.grad_norm);
  EXPECT_EQ(found.metrics, expected.metrics);
}

void expect_same_state(StageRun& found, StageRun& expected) {
  for (std::size_t unit = 0; unit < found.num_units(); ++unit) {
    const Tensor gradient = found.grad(unit).values, master = found.master(unit).values;
    EXPECT_TRUE(gradient.cpu().equal(expected.grad(unit).values.cpu())) << unit;
    EXPECT_TRUE(master.cpu().equal(expected.master(unit).values.cpu())) << unit;
  }
  EXPECT_EQ(found.ema().read(), expected.ema().read());
}

// A validation in between leaves notes of its own on the host, which no replayed step may read.
TEST_P(StageGraphsOnGpu, HaveTheBitsOfPlainSteps) {
  for (const StageCase& one : cases_of(GetParam())) {
    SCOPED_TRACE(one.name);
    const auto graphs = make_run(one.setup, true), plain = make_run(one.setup, false);
    for (int step = 0; step < 6; ++step) {
      SCOPED_TRACE(step);
      const std::vector<StageSample> samples = samples_of(one, step);
      expect_same_step(graphs->step(samples), plain->step(samples));
      if (step != 2) continue;
      EXPECT_EQ(graphs->validate(samples).loss, plain->validate(samples).loss);
    }
    expect_same_state(*graphs, *plain);
    EXPECT_GE(graphs->model().step().graphs()->hits().hits, 2);
  }
}

TEST_P(StageGraphsOnGpu, AccumulateOverMicroBatches) {
  StageCase one = cases_of(GetParam()).back();
  one.setup.batch_size = 3;
  const auto graphs = make_run(one.setup, true), plain = make_run(one.setup, false);
  for (int step = 0; step < 4; ++step) {
    std::vector<StageSample> samples = random_samples(8, 5, one.pairs);
    if (one.cached) cache_signals(samples, static_cast<std::uint64_t>(step));
    expect_same_step(graphs->step(samples), plain->step(samples));
  }
  expect_same_state(*graphs, *plain);
  EXPECT_EQ(graphs->model().step().graphs()->hits().hits, 2);
}

// The stages that ask another model.
using SignalsOfGraphsOnGpu = StageGraphsOnGpu;

// A frozen model speaks in front of the graph, to all that keep what it says.
TEST_P(SignalsOfGraphsOnGpu, AreKeptOfEveryStep) {
  const auto run = make_run({.stage = GetParam(), .frozen_seed = 9}, true);
  std::vector<Tensor> kept;
  run->frozen()->observe([&](const training::DeviceBatch&, const Tensor& signal_N) {
    kept.push_back(signal_N.cpu());
  });
  for (int step = 0; step < 5; ++step) run->step(samples_of({.name = "", .setup = {}}, step));
  ASSERT_EQ(kept.size(), 5U);
  EXPECT_GT(run->model().step().graphs()->hits().hits, 0);
  for (std::size_t step = 1; step < kept.size(); ++step)
    EXPECT_FALSE(kept[step].equal(kept[step - 1])) << step;
}

TEST_P(StageGraphsOnGpu, AreReplayedWithoutAWaitOfTheHost) {
  const StageCase one = cases_of(GetParam()).back();
  const auto run = make_run(one.setup, true);
  const std::vector<StageSample> samples = samples_of(one, 1);
  for (int step = 0; step < 2; ++step) run->step(samples);
  const training::StepInput input = run->deal(samples);
  const auto forbid_host_waits = cuda_tables().services.forbid_host_waits;
  forbid_host_waits(true);
  EXPECT_NO_THROW(run->model().step().run(input));
  forbid_host_waits(false);
  EXPECT_EQ(run->model().step().graphs()->hits().hits, 1);
}

INSTANTIATE_TEST_SUITE_P(Stages, StageGraphsOnGpu,
                         ::testing::Values(StageKind::critic, StageKind::verifiable,
                                           StageKind::rho1));
INSTANTIATE_TEST_SUITE_P(Stages, SignalsOfGraphsOnGpu,
                         ::testing::Values(StageKind::verifiable, StageKind::rho1));

}  // namespace
}  // namespace wmtp::test
