// The laws of the stages in one process: what must not change the result does not.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/tolerance.h"
#include "training/stage_cases.h"

namespace wmtp::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
const std::vector<int> kSizes{8, 5, 7};

// The same samples in micro-batches of 1, 3 and 8.
TEST(StageLaws, MicroBatchesDoNotMatter) {
  for (StageCase one : stage_cases()) {
    if (one.grouped) continue;
    const StageSteps steps = steps_of(one, kSizes);
    const StageTrace whole = run_alone(one.setup, steps);
    for (const int batch_size : {1, 3}) {
      SCOPED_TRACE(one.name + " in micro-batches of " + std::to_string(batch_size));
      one.setup.batch_size = batch_size;
      expect_same(run_alone(one.setup, steps), whole);
    }
  }
}

// Only the result of training: every stage must have learned something for the laws to mean much.
TEST(StageLaws, EveryStageMovesItsWeights) {
  for (const StageCase& one : stage_cases()) {
    const StageTrace trace = run_alone(one.setup, steps_of(one, kSizes));
    double moved = 0;
    for (std::size_t u = 0; u < trace.end.size(); ++u)
      moved += trace.end[u].sub(trace.start[u]).norm().item<double>();
    EXPECT_GT(moved, 1e-3) << one.name;
    for (const auto& result : trace.results) EXPECT_TRUE(result.applied) << one.name;
  }
}

// The control of the laws above: where they claim nothing, and without dropout, results do differ.
TEST(StageLaws, CompanyAndDropoutMatterWhereTheyShould) {
  for (StageCase one : stage_cases()) {
    SCOPED_TRACE(one.name);
    const StageSteps steps = steps_of(one, {8});
    const double loss = run_alone(one.setup, steps).results[0].loss;
    StageSetup other = one.setup;
    if (one.grouped) {
      other.batch_size = 2;
      EXPECT_GT(std::abs(run_alone(other, steps).results[0].loss - loss), 1e-3 * loss);
    }
    other = one.setup;
    if (other.lora) other.lora->dropout = 0;
    other.value_head.dropout = 0;
    const bool drops = one.setup.lora || one.setup.value_head.dropout > 0;
    EXPECT_EQ(std::abs(run_alone(other, steps).results[0].loss - loss) > 1e-5 * loss, drops);
  }
}

TEST(StageLaws, PaddedIsPacked) {
  for (StageCase one : stage_cases()) {
    SCOPED_TRACE(one.name);
    one.setup.batch_size = 3;
    const StageSteps steps = steps_of(one, kSizes);
    const StageTrace packed = run_alone(one.setup, steps);
    one.setup.row_stride = 24;
    expect_same(run_alone(one.setup, steps), packed);
  }
}

// Loss and weights alone: the stages report different metrics.
void expect_same_training(const StageTrace& found, const StageTrace& expected) {
  StageTrace plain = found;
  for (std::size_t s = 0; s < plain.results.size(); ++s)
    plain.results[s].metrics = expected.results.at(s).metrics;
  // Weights of 1 may be so to a few units of fp32 only: they are exponentials.
  EXPECT_WITHIN(std::abs(found.validation.loss - expected.validation.loss),
                8 * 0x1p-24 * expected.validation.loss);
  plain.validation = expected.validation;
  expect_same(plain, expected);
}

TEST(StageLaws, SelectingEverythingIsTheBaseline) {
  StageCase rho1{"rho1", {.stage = StageKind::rho1, .batch_size = 3}, /*cached=*/true};
  const StageSteps steps = steps_of(rho1, kSizes);
  const StageTrace baseline = run_alone({.batch_size = 3}, steps);
  rho1.setup.rho1.k_percent = 1;
  for (const bool always : {false, true})
    for (const auto normalization :
         {losses::Normalization::tokens, losses::Normalization::weights}) {
      rho1.setup.rho1.first_head_always = always;
      rho1.setup.rho1.normalization = normalization;
      expect_same_training(run_alone(rho1.setup, steps), baseline);
    }
}

TEST(StageLaws, AHugeBetaIsTheBaseline) {
  StageCase td{"td", {.stage = StageKind::verifiable, .batch_size = 3}, /*cached=*/true};
  td.setup.verifiable.weights.beta = 1e9;
  const StageSteps steps = steps_of(td, kSizes);
  const StageTrace baseline = run_alone({.batch_size = 3}, steps);
  for (const auto mode : {weighting::TdMode::td0, weighting::TdMode::gae})
    for (const auto normalization :
         {losses::Normalization::tokens, losses::Normalization::weights}) {
      td.setup.verifiable.td.mode = mode;
      td.setup.verifiable.normalization = normalization;
      expect_same_training(run_alone(td.setup, steps), baseline);
    }
}

// All weights are clip_min = 2: `weights` divides them out, `tokens` does not.
TEST(StageLaws, AConstantWeightCancels) {
  StageCase td{"td", {.stage = StageKind::verifiable, .batch_size = 3}, /*cached=*/true};
  td.setup.verifiable.weights = {.beta = 1e9, .clip_min = 2, .clip_max = 3};
  td.setup.verifiable.normalization = losses::Normalization::weights;
  const StageSteps steps = steps_of(td, kSizes);
  const StageTrace baseline = run_alone({.batch_size = 3}, steps);
  expect_same_training(run_alone(td.setup, steps), baseline);
  td.setup.verifiable.normalization = losses::Normalization::tokens;
  const StageTrace twice = run_alone(td.setup, {steps[0]});
  // Twice is another exponent and no other digit.
  EXPECT_EQ(twice.results[0].loss, 2 * baseline.results[0].loss);
  EXPECT_EQ(twice.results[0].grad_norm, 2 * baseline.results[0].grad_norm);
}

StageCase cached_gae() {
  StageCase one{"gae", {.stage = StageKind::verifiable, .batch_size = 3}, /*cached=*/true};
  one.setup.verifiable.td.mode = weighting::TdMode::gae;
  one.setup.verifiable.whiten = training::Whiten::ema;
  return one;
}

// A signal that no formula reads may be anything.
TEST(StageLaws, NanUnderTheMaskIsAGoodStep) {
  const StageCase gae = cached_gae();
  StageSteps steps = steps_of(gae, kSizes);
  const StageTrace whole = run_alone(gae.setup, steps);
  const StageTrace selected = run_alone({.stage = StageKind::rho1, .batch_size = 3}, steps);
  int num_holes = 0;
  for (auto& samples : steps)
    for (StageSample& sample : samples)
      for (StageRow& row : sample)
        for (std::int32_t t = 0; t < row.prompt; ++t) {
          row.ref_nll[static_cast<std::size_t>(t)] = kNaN;
          if (t + 1 == row.prompt) continue;  // the first response token is compared with it
          row.value[static_cast<std::size_t>(t)] = kNaN;
          ++num_holes;
        }
  ASSERT_GT(num_holes, 10);
  expect_same(run_alone(gae.setup, steps), whole);
  expect_same(run_alone({.stage = StageKind::rho1, .batch_size = 3}, steps), selected);
}

void expect_skipped(const StageSetup& setup, const StageSteps& steps) {
  const StageTrace trace = run_alone(setup, steps);
  for (const auto& result : trace.results) EXPECT_TRUE(result.bad && !result.applied);
  for (std::size_t u = 0; u < trace.end.size(); ++u)
    EXPECT_TRUE(trace.end[u].equal(trace.start[u]));
}

TEST(StageLaws, NanInASignalThatIsReadIsABadStep) {
  const StageCase gae = cached_gae();
  StageSteps steps = steps_of(gae, {8});
  StageRow& row = steps[0][3][0];
  ASSERT_GT(row.prompt, 0);
  const std::size_t read[] = {static_cast<std::size_t>(row.prompt) - 1, row.ids.size() - 1};
  for (const std::size_t at : read)
    for (const float broken : {kNaN, -std::numeric_limits<float>::infinity()}) {
      const float before = std::exchange(row.value[at], broken);
      expect_skipped(gae.setup, steps);
      row.value[at] = before;
    }
  row.ref_nll.back() = kNaN;
  expect_skipped({.stage = StageKind::rho1, .batch_size = 3}, steps);
}

TEST(StageLaws, AStepWithoutTargetsChangesNothing) {
  for (const StageCase& one : stage_cases()) {
    StageSteps steps = steps_of(one, {3});
    for (StageSample& sample : steps[0])
      for (StageRow& row : sample) row.prompt = static_cast<std::int32_t>(row.ids.size());
    const StageTrace trace = run_alone(one.setup, steps);
    EXPECT_FALSE(trace.results[0].applied || trace.results[0].bad) << one.name;
    EXPECT_EQ(trace.results[0].loss, 0) << one.name;
    for (const auto& [name, value] : trace.results[0].metrics)
      EXPECT_TRUE(std::isfinite(value)) << one.name << " " << name;
    for (std::size_t u = 0; u < trace.end.size(); ++u)
      EXPECT_TRUE(trace.end[u].equal(trace.start[u])) << one.name;
  }
}

}  // namespace
}  // namespace wmtp::test
