// Vectors V36 - V40: value losses, their gradients, targets, the lambda schedule.
#include "wmtp/losses/value_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"
#include "support/packed_rows.h"
#include "wmtp/losses/lambda_schedule.h"

namespace wmtp::losses {
namespace {

using test::MaskRow;
using test::numbers;
using test::packed;
using test::responses;
using test::Row;

using test::kNaN;
using test::kTolerance;

ValueLossOptions returns(double lambda, double gamma = 1, ValueLossFn fn = ValueLossFn::huber) {
  return {ValueLossType::lambda_return, fn, .5, gamma, lambda, ValueReduction::sequence};
}

// A positive and a negative of two tokens each, `gap` apart in the mean.
double pair_loss(double gap) {
  const auto docs = responses({{1, 1}, {1, 1}}, {0, 0});
  const Tensor roles = at::tensor(std::vector<int>{1, 2}, at::kInt).to(at::kByte);
  return pairwise_loss(packed({{gap + .1, gap - .1}, {.3, -.3}}), docs, roles, {.pairs = 1})
      .loss.item<double>();
}

// Vector V36.
TEST(Pairwise, LossFallsWithTheGap) {
  EXPECT_NEAR(pair_loss(.5), .474077, kTolerance);
  EXPECT_NEAR(pair_loss(0), .693147, kTolerance);
  EXPECT_NEAR(pair_loss(-.5), .974077, kTolerance);
}

// Vector V37.
TEST(ValueLoss, MseAndHuberBySequenceAndByToken) {
  const Tensor values = packed({{.2, .6}, {.5}});
  const auto docs = responses({{1, 1}, {1}}, {1, 0});
  const ValueCounts counts{.sequences = 2, .tokens = 3};
  ValueLossOptions options;
  const ValueLoss mse = value_loss(options, values, docs, counts);
  EXPECT_NEAR(mse.loss.item<double>(), .325, kTolerance);
  EXPECT_NEAR(numbers(mse.dvalues_N)[0], -.4, kTolerance);
  options.reduction = ValueReduction::token;
  EXPECT_NEAR(value_loss(options, values, docs, counts).loss.item<double>(), .35, kTolerance);
  options = returns(1);  // lambda = gamma = 1: the target is R, with huber .5
  EXPECT_NEAR(value_loss(options, values, docs, counts).loss.item<double>(), .3025, kTolerance);
  options.reduction = ValueReduction::token;
  EXPECT_NEAR(value_loss(options, values, docs, counts).loss.item<double>(), .32, kTolerance);
}

// Vectors V38, V39.
TEST(ValueLoss, LambdaReturnsAndTheirLoss) {
  const auto docs = responses({{1, 1, 1, 1}}, {1});
  EXPECT_NUMBERS(numbers(value_targets(returns(.95), packed({{.5, .5, .5, .5}}), docs)),
                 (Row{.9286875, .95125, .975, 1}), kTolerance);
  const Tensor values = packed({{.1, .2, .3, .4}});
  EXPECT_NUMBERS(numbers(value_targets(returns(0), values, docs)), (Row{.2, .3, .4, 1}),
                 kTolerance);
  EXPECT_NUMBERS(numbers(value_targets(returns(.5, .9), values, docs)),
                 (Row{.278325, .4185, .63, 1}), kTolerance);
  const auto loss = [&](ValueLossFn fn) {
    return value_loss(returns(.5, .9, fn), values, docs, {.sequences = 1}).loss.item<double>();
  };
  EXPECT_NEAR(loss(ValueLossFn::mse), .137111, kTolerance);
  EXPECT_NEAR(loss(ValueLossFn::huber), .134611, kTolerance);
}

// Vector V40.
TEST(LambdaSchedules, LinearCosineConstantAndAtOnce) {
  LambdaSchedule schedule;
  const auto run = [&] {
    Row out;
    for (const std::int64_t step : {0, 250, 375, 500, 750})
      out.push_back(lambda_at(schedule, step));
    return out;
  };
  EXPECT_NUMBERS(run(), (Row{1, 1, .9875, .975, .95}), kTolerance);
  schedule.type = LambdaScheduleType::cosine;
  EXPECT_NUMBERS(run(), (Row{1, 1, .992678, .975, .95}), kTolerance);
  schedule.type = LambdaScheduleType::constant;
  EXPECT_NUMBERS(run(), (Row{.995, .995, .995, .995, .995}), 0);
  schedule = {.warmup_steps = 250, .decay_steps = 0};
  EXPECT_NUMBERS(run(), (Row{1, .95, .95, .95, .95}), 1e-12);
}

struct Mixed {
  std::vector<Row> values{{kNaN, .2, .6, kNaN}, {.45}, {kNaN, kNaN}, {.3, kNaN, .9}, {}};
  std::vector<MaskRow> masks{{0, 1, 1, 0}, {1}, {0, 0}, {1, 0, 1}, {}};
  Row rewards{1, 0, 1, .5, 0};
};

// Gradients against central differences; NaN outside the mask reaches nothing (with mse).
TEST(ValueLoss, GradientsEqualDifferences) {
  Mixed mixed;
  const ValueCounts counts{.sequences = 3, .tokens = 5};
  for (ValueLossOptions options :
       {ValueLossOptions{}, returns(.7, .9), returns(1, .9), returns(.7, 1, ValueLossFn::mse)})
    for (const ValueReduction reduction : {ValueReduction::sequence, ValueReduction::token}) {
      options.reduction = reduction;
      // The lambda-return reads the gap of the last response.
      mixed.values[3][1] = options.type == ValueLossType::mse ? kNaN : .4;
      const Tensor values = packed(mixed.values);
      const auto docs = responses(mixed.masks, mixed.rewards);
      const ValueLoss got = value_loss(options, values, docs, counts);
      EXPECT_EQ(got.bad.item<std::int64_t>(), 0);
      const Tensor targets = value_targets(options, values, docs);
      const Row slopes = numbers(got.dvalues_N), mask = numbers(docs.mask_N);
      for (std::size_t i = 0; i < slopes.size(); ++i) {
        if (mask[i] == 0) {
          EXPECT_EQ(slopes[i], 0);
          continue;
        }
        // Targets are constants: move v and the target's share in the loss separately.
        const double e = numbers(values)[i] - numbers(targets)[i], n = i < 4 ? 2 : i == 4 ? 1 : 2;
        const bool huber =
            options.type == ValueLossType::lambda_return && options.loss_fn == ValueLossFn::huber;
        const auto f = [&](double x) {
          if (!huber) return x * x;
          return std::abs(x) < .5 ? x * x : std::abs(x) - .25;
        };
        const double share = reduction == ValueReduction::token ? 1 / 5. : 1 / (3 * n);
        EXPECT_NEAR(slopes[i], share * (f(e + 1e-6) - f(e - 1e-6)) / 2e-6, 1e-8) << i;
      }
    }
}

ValueCounts on_device(const ValueCounts& counts) {
  const std::vector<double> numbers{counts.sequences, counts.tokens, counts.pairs};
  ValueCounts device{.sequences = kNaN, .tokens = kNaN, .pairs = kNaN};
  device.counts_3 = at::tensor(numbers, at::kDouble);
  return device;
}

// A tensor's counts and lambda have the bits of the host's, and the host's are not read then.
TEST(ValueLoss, CountsAndLambdaMayBeTheDevices) {
  Mixed mixed;
  mixed.values[3][1] = .4;
  const Tensor values = packed(mixed.values);
  const auto docs = responses(mixed.masks, mixed.rewards);
  for (const ValueCounts& counts : {ValueCounts{3, 5, 0}, ValueCounts{}})
    for (const ValueReduction reduction : {ValueReduction::sequence, ValueReduction::token}) {
      ValueLossOptions options = returns(.7, .9);
      options.reduction = reduction;
      const ValueLoss expected = value_loss(options, values, docs, counts);
      options.lambda_1 = at::full({1}, options.lambda, at::kDouble);
      options.lambda = 0;
      const ValueLoss found = value_loss(options, values, docs, on_device(counts));
      EXPECT_EQ(found.loss.item<double>(), expected.loss.item<double>());
      EXPECT_TRUE(found.dvalues_N.equal(expected.dvalues_N));
    }
}

// Parts divided by the step's counts add up to the whole: law (a).
TEST(ValueLoss, PartsAddUp) {
  const ValueCounts counts{.sequences = 2, .tokens = 3};
  const Tensor values = packed({{.2, .6}, {.5}});
  const ValueLoss whole = value_loss({}, values, responses({{1, 1}, {1}}, {1, 0}), counts);
  const ValueLoss first = value_loss({}, packed({{.2, .6}}), responses({{1, 1}}, {1}), counts);
  const ValueLoss second = value_loss({}, packed({{.5}}), responses({{1}}, {0}), counts);
  const ValueLoss none = value_loss({}, packed({{}}), responses({}, {}), counts);
  EXPECT_NEAR((first.loss + second.loss + none.loss).item<double>(), whole.loss.item<double>(),
              1e-15);
  EXPECT_NEAR(numbers(whole.dvalues_N)[2], numbers(second.dvalues_N)[0], 1e-15);
}

TEST(ValueLoss, CountsBadValues) {
  const auto docs = responses({{0, 1, 1}}, {1});
  const ValueCounts counts{.sequences = 1, .tokens = 2};
  const auto bad = [&](const Row& values, const ValueLossOptions& options) {
    return value_loss(options, packed({values}), docs, counts).bad.item<std::int64_t>();
  };
  EXPECT_EQ(bad({kNaN, .1, .2}, {}), 0);
  EXPECT_EQ(bad({0, kNaN, HUGE_VAL}, {}), 2);
  EXPECT_EQ(bad({kNaN, .1, .2}, returns(.5)), 0);
  EXPECT_EQ(bad({0, kNaN, .2}, returns(.5)), 1);
  EXPECT_EQ(bad({0, .1, kNaN}, returns(.5)), 1);
}

TEST(ValueLoss, RefusesWhatCannotBe) {
  EXPECT_WMTP_ERROR(check(returns(1.1)), ErrorKind::config, "1.1");
  EXPECT_WMTP_ERROR(check(returns(1, 0)), ErrorKind::config, "value_loss.gamma is 0");
  ValueLossOptions options;
  options.huber_delta = 0;
  EXPECT_WMTP_ERROR(check(options), ErrorKind::config, "huber_delta is 0");
}

// Pairs with an empty side are dropped; singles and NaN outside pairs change nothing.
TEST(Pairwise, DropsAndGradients) {
  const std::vector<MaskRow> masks{{1, 0, 1}, {1}, {1, 1}, {0, 0}, {1}, {1, 1}, {1}};
  const Tensor roles = at::tensor(std::vector<int>{1, 2, 1, 2, 0, 1, 2}, at::kInt).to(at::kByte);
  const std::vector<Row> values{{.9, kNaN, .4}, {.2}, {kNaN, .3}, {.1, .1}, {kNaN}, {.1, .2}, {.6}};
  const auto docs = responses(masks, Row(7, 0));
  const ValueCounts counts{.pairs = 2};
  const ValueLoss got = pairwise_loss(packed(values), docs, roles, counts);
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  const double gaps[] = {.65 - .2, .15 - .6};
  EXPECT_NEAR(got.loss.item<double>(), (softplus(-gaps[0]) + softplus(-gaps[1])) / 2, 1e-14);
  EXPECT_EQ(got.bad.item<std::int64_t>(), 0);
  const auto slope = [](double gap) { return -1 / (1 + std::exp(gap)) / 2; };
  const double a = slope(gaps[0]), b = slope(gaps[1]);
  EXPECT_NUMBERS(numbers(got.dvalues_N),
                 (Row{a / 2, 0, a / 2, -a, 0, 0, 0, 0, 0, b / 2, b / 2, -b}), 1e-14);
  const ValueLoss same = pairwise_loss(packed(values), docs, roles, on_device(counts));
  EXPECT_EQ(same.loss.item<double>(), got.loss.item<double>());
  EXPECT_TRUE(same.dvalues_N.equal(got.dvalues_N));
  EXPECT_EQ(pairwise_loss(packed(values), docs, roles, on_device({})).loss.item<double>(), 0);
}

TEST(Pairwise, EmptyBatches) {
  const Tensor no_roles = at::full({0}, 0, at::kByte), one_role = at::full({1}, 1, at::kByte);
  EXPECT_EQ(
      pairwise_loss(packed({{}}), responses({}, {}), no_roles, {.pairs = 3}).loss.item<double>(),
      0);
  const ValueLoss single =
      pairwise_loss(packed({{.3}}), responses({{1}}, {0}), one_role, {.pairs = 0});
  EXPECT_EQ(single.loss.item<double>(), 0);
  EXPECT_EQ(numbers(single.dvalues_N)[0], 0);
}

TEST(ValueMse, SumsOverResponseTokens) {
  const auto docs = responses({{0, 1, 1}, {1}}, {1, 0});
  EXPECT_NUMBERS(numbers(value_mse_sums(packed({{kNaN, .2, .6}, {.5}}), docs)), (Row{1.05, 3}),
                 1e-14);
}

}  // namespace
}  // namespace wmtp::losses
