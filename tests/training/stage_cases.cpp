#include "training/stage_cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/tolerance.h"
#include "wmtp/comm/groups.h"

#include <cmath>

namespace wmtp::test {
namespace {

using losses::ValueLossType;
using training::Whiten;

model::LoraConfig dropping_lora() {
  model::LoraConfig lora;
  lora.rank = 4, lora.alpha = 8, lora.dropout = 0.1;
  return lora;
}

training::ValuePathOptions dropping_head() {
  return {.type = model::ValueHeadType::mlp, .dropout = 0.1};
}

void add_critics(std::vector<StageCase>& cases) {
  StageSetup critic{.stage = StageKind::critic, .value_head = dropping_head()};
  cases.push_back({"critic mse", critic});
  StageSetup adapted = critic;
  adapted.lora = dropping_lora();
  adapted.critic.backbone_learns = true;
  adapted.critic.loss.reduction = losses::ValueReduction::token;
  cases.push_back({"critic token lora", adapted});
  StageSetup lambda = critic;
  lambda.critic.backbone_learns = true;
  lambda.critic.loss.type = ValueLossType::lambda_return;
  lambda.critic.lambda_schedule.warmup_steps = 1, lambda.critic.lambda_schedule.decay_steps = 4;
  cases.push_back({"critic lambda trained", lambda});
  StageSetup pairs = critic;
  pairs.critic.pairs = true;
  pairs.critic.loss.type = ValueLossType::pairwise_ranking;
  cases.push_back({.name = "critic pairs", .setup = pairs, .pairs = true});
}

void add_verifiable(std::vector<StageCase>& cases) {
  const StageSetup plain{.stage = StageKind::verifiable};
  StageSetup joint = plain;
  joint.joint = true, joint.value_head = dropping_head();
  cases.push_back({"joint td0", joint});
  StageSetup stopped = joint;
  stopped.lora = dropping_lora(), stopped.verifiable.stop_gradient = true;
  stopped.verifiable.whiten = Whiten::ema;
  cases.push_back({"joint ema stopped lora", stopped});
  StageSetup gae = plain;
  gae.verifiable.td.mode = weighting::TdMode::gae;
  StageSetup live = gae;
  live.frozen_seed = 9, live.verifiable.normalization = losses::Normalization::weights;
  cases.push_back({"gae live weights", live});
  StageSetup ema = gae;
  ema.verifiable.whiten = Whiten::ema, ema.lora = dropping_lora();
  cases.push_back({"gae ema cached", ema, /*cached=*/true});
  StageSetup shuffled = plain;
  shuffled.verifiable.control = training::WeightControl::shuffled;
  cases.push_back({"shuffled", shuffled, /*cached=*/true});
  StageSetup random = plain;
  random.verifiable.control = training::WeightControl::random;
  random.verifiable.normalization = losses::Normalization::weights;
  cases.push_back({"random weights", random});
  StageSetup batch = gae;
  batch.verifiable.whiten = Whiten::batch;
  cases.push_back({.name = "gae batch", .setup = batch, .cached = true, .grouped = true});
  batch.verifiable.normalization = losses::Normalization::weights;
  batch.verifiable.control = training::WeightControl::shuffled;
  cases.push_back(
      {.name = "shuffled batch weights", .setup = batch, .cached = true, .grouped = true});
}

void add_rho1(std::vector<StageCase>& cases) {
  StageSetup cached{.stage = StageKind::rho1};
  cases.push_back({.name = "rho1 cached", .setup = cached, .cached = true, .grouped = true});
  StageSetup live = cached;
  live.frozen_seed = 9, live.lora = dropping_lora();
  live.rho1.first_head_always = false, live.rho1.mode = weighting::Rho1Mode::absolute;
  live.rho1.normalization = losses::Normalization::weights_joint;
  cases.push_back({.name = "rho1 live", .setup = live, .grouped = true});
}

double relative(const Tensor& found, const Tensor& expected, const Tensor& scale) {
  const double norm = scale.to(at::kDouble).norm().item<double>();
  const double far = found.to(at::kDouble).sub(expected).norm().item<double>();
  return far == 0 ? 0 : far / norm;
}

}  // namespace

std::vector<StageCase> stage_cases() {
  std::vector<StageCase> cases{{"baseline", {}}};
  cases.push_back({"baseline lora", {.lora = dropping_lora()}});
  add_critics(cases);
  add_verifiable(cases);
  add_rho1(cases);
  return cases;
}

StageSteps steps_of(const StageCase& one, const std::vector<int>& sizes) {
  StageSteps steps;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    steps.push_back(random_samples(sizes[s], 20 + s, one.pairs));
    if (one.cached) cache_signals(steps.back(), 20 + s);
  }
  return steps;
}

StageTrace run_alone(const StageSetup& setup, const StageSteps& steps) {
  const auto gather = comm::make_single("gather", c10::Device(c10::kCPU));
  const auto reduce = comm::make_single("reduce", c10::Device(c10::kCPU));
  StageRun run(setup, {gather.get(), reduce.get()});
  StageTrace trace;
  for (std::size_t u = 0; u < run.num_units(); ++u)
    trace.start.push_back(run.master(u).values.clone());
  for (const auto& samples : steps) {
    // A step must not read what an earlier one left in the gradients.
    for (std::size_t u = 0; u < run.num_units(); ++u)
      if (run.grad(u).values.defined()) run.grad(u).values.fill_(NAN);
    trace.results.push_back(run.step(samples));
    for (std::size_t u = 0; trace.results.size() == 1 && u < run.num_units(); ++u)
      trace.first_grads.push_back(run.grad(u).values.clone());
  }
  trace.validation = run.validate(steps.front());
  for (std::size_t u = 0; u < run.num_units(); ++u)
    trace.end.push_back(run.master(u).values.clone());
  return trace;
}

namespace {

void expect_same_metrics(const training::Metrics& found, const training::Metrics& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, expected[i].first);
    EXPECT_WITHIN(std::abs(found[i].second - expected[i].second),
                  1e-4 * (0.1 + std::abs(expected[i].second)))
        << found[i].first;
  }
}

}  // namespace

void expect_same_results(const training::StepResult& found, const training::StepResult& expected) {
  EXPECT_EQ(found.applied, expected.applied);
  EXPECT_EQ(found.bad, expected.bad);
  EXPECT_WITHIN(std::abs(found.loss - expected.loss), 1e-5 * std::abs(expected.loss));
  EXPECT_WITHIN(std::abs(found.grad_norm - expected.grad_norm), 1e-4 * expected.grad_norm);
  expect_same_metrics(found.metrics, expected.metrics);
}

void expect_same_numbers(const training::Numbers& found, const training::Numbers& expected) {
  EXPECT_WITHIN(std::abs(found.loss - expected.loss), 1e-4 * std::abs(expected.loss));
  expect_same_metrics(found.metrics, expected.metrics);
}

void expect_same(const StageTrace& found, const StageTrace& expected) {
  ASSERT_EQ(found.results.size(), expected.results.size());
  for (std::size_t s = 0; s < found.results.size(); ++s) {
    SCOPED_TRACE(fmt::format("step {}", s));
    expect_same_results(found.results[s], expected.results[s]);
  }
  expect_same_numbers(found.validation, expected.validation);
  for (std::size_t u = 0; u < expected.end.size(); ++u) {
    EXPECT_WITHIN(relative(found.first_grads[u], expected.first_grads[u], expected.first_grads[u]),
                  1e-5)
        << "gradient of unit " << u;
    EXPECT_WITHIN(relative(found.end[u], expected.end[u], expected.end[u].sub(expected.start[u])),
                  1e-3)
        << "weights of unit " << u;
  }
}

}  // namespace wmtp::test
