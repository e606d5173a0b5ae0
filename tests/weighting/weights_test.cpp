// Vectors V20 - V24 and V49: whitening, weights, the tracker, statistics.
#include "wmtp/weighting/weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"
#include "support/packed_rows.h"
#include "wmtp/weighting/ema.h"
#include "wmtp/weighting/weight_stats.h"

namespace wmtp::weighting {
namespace {

using test::numbers;
using test::packed;
using test::Row;

using test::kNaN;
using test::kTolerance;
const WeightOptions kClipTo3{1, 0.1, 3};

Tensor ones_mask(std::size_t size) {
  return at::full({static_cast<std::int64_t>(size)}, 1, at::kByte);
}
Row weigh(const Row& x, const Whitening& whitening = {}) {
  return numbers(token_weights(packed({x}), ones_mask(x.size()), kClipTo3, whitening).weights_N);
}
Whitening batch_of(const Row& x) {
  return batch_whitening(masked_sums(packed({x}), ones_mask(x.size())));
}

// Vector V20.
TEST(Weights, PlainBatchWhitenedAndEmaWhitened) {
  const Row x{.4705, .39, .2};
  EXPECT_NUMBERS(weigh(x), (Row{1.600794, 1.476981, 1.221403}), kTolerance);
  const Whitening batch = batch_of(x);
  EXPECT_NEAR(batch.mean.item<double>(), .3535, 1e-12);
  EXPECT_NEAR(batch.divisor.item<double>(), .1388947, 1e-7);
  EXPECT_NUMBERS(weigh(x, batch), (Row{2.321850, 1.300552, .331160}), kTolerance);
  EXPECT_NUMBERS(weigh(x, ema_whitening(.3, .2, c10::kCPU)), (Row{2.345503, 1.568312, .606531}),
                 kTolerance);
}

// Vector V21.
TEST(Weights, AreClippedAndTheClippedCounted) {
  const Row x{1.5, -3, .25, .5};
  const TokenWeights got = token_weights(packed({x}), ones_mask(4), kClipTo3);
  EXPECT_NUMBERS(numbers(got.weights_N), (Row{3, .1, 1.284025, 1.648721}), kTolerance);
  EXPECT_EQ(got.num_clipped.item<double>() / 4, .5);
}

// Vector V24.
TEST(Weights, FlatAndTinyScopesWeighOne) {
  EXPECT_NUMBERS(weigh({.1, .1, .1}, batch_of({.1, .1, .1})), (Row{1, 1, 1}), 0);
  EXPECT_NUMBERS(weigh({.7}, batch_of({.7})), (Row{1}), 0);
  EXPECT_NUMBERS(weigh({1e3, 1e3, 1e3}, batch_of({1e3, 1e3, 1e3})), (Row{1, 1, 1}), 0);
  EXPECT_EQ(weigh({}, batch_of({})).size(), 0u);
  const Tensor x = packed({{kNaN, 3}}), none = at::zeros({2}, at::kByte);
  const Whitening empty = batch_whitening(masked_sums(x, none));
  EXPECT_NUMBERS(numbers(token_weights(x, none, kClipTo3, empty).weights_N), (Row{0, 0}), 0);
}

TEST(Weights, MaskSelects) {
  const Tensor x = packed({{kNaN, .4705, 1e300, .39, .2, -HUGE_VAL}});
  const Tensor mask = at::tensor(std::vector<int>{0, 1, 0, 1, 1, 0}, at::kInt).to(at::kByte);
  const TokenWeights got = token_weights(x, mask, kClipTo3, batch_whitening(masked_sums(x, mask)));
  EXPECT_NUMBERS(numbers(got.weights_N), (Row{0, 2.321850, 0, 1.300552, .331160, 0}), kTolerance);
  EXPECT_EQ(got.num_clipped.item<double>(), 0);
}

TEST(Weights, OverflowIsExactlyTheBound) {
  for (const DType dtype : {kFloat64, kFloat32}) {
    const Tensor w = token_weights(packed({{1e6, -1e6}}, dtype), ones_mask(2), kClipTo3).weights_N;
    EXPECT_EQ(w.scalar_type(), dtype);
    EXPECT_EQ(numbers(w), (Row{3, dtype == kFloat64 ? .1 : static_cast<double>(.1f)}));
  }
}

// A scope over ranks: the sums add up.
TEST(Weights, SumsOfPartsGiveTheWhole) {
  const Row all{.3, -.2, .9, .4};
  const Tensor parts = masked_sums(packed({{.3}}), ones_mask(1)) +
                       masked_sums(packed({{-.2, .9, .4}}), ones_mask(3)) +
                       masked_sums(packed({{}}), ones_mask(0));
  EXPECT_NUMBERS(weigh(all, batch_whitening(parts)), weigh(all, batch_of(all)), 1e-14);
}

TEST(Weights, RefusesWhatCannotBe) {
  EXPECT_WMTP_ERROR(check(WeightOptions{0, .1, 3}), ErrorKind::config, "td.beta is 0");
  EXPECT_WMTP_ERROR(check(WeightOptions{1, 3, 3}), ErrorKind::config, "clip_min is 3");
  EXPECT_WMTP_ERROR(check(WeightOptions{1, -.1, 3}), ErrorKind::config, "clip_min is -0.1");
}

MaskedSums sums_of(const Row& x) {
  MaskedSums sums;
  for (const double v : x) sums.sum += v, sums.sum_of_squares += v * v, sums.count += 1;
  return sums;
}

// Host and device side by side; both must agree at every step.
struct TwoTrackers {
  explicit TwoTrackers(std::int64_t warmup) {
    host.warmup_steps = warmup;
    device = std::make_unique<EmaTracker>(host, c10::kCPU);
  }
  void step(const Row& x, int apply = 1) {
    const MaskedSums sums = sums_of(x);
    if (apply) host = update(host, sums);
    device->update(packed({{sums.sum, sums.sum_of_squares, sums.count}}),
                   at::full({}, apply, at::kInt));
    const EmaState mirror = device->read();
    EXPECT_NEAR(mirror.mean, host.mean, 1e-14);
    EXPECT_NEAR(mirror.std, host.std, 1e-14);
    EXPECT_EQ(mirror.count, host.count);
  }
  EmaState host;
  std::unique_ptr<EmaTracker> device;
};

// Vector V22.
TEST(Ema, WarmUpAveragesThenMomentumHolds) {
  TwoTrackers four(4), two(2), one(10);
  four.step({.5, 1.5}), four.step({1.5, 2.5});
  EXPECT_NEAR(four.host.mean, 1.75, 1e-12);
  for (const double mean : {1.0, 1.0, 2.0}) two.step({mean});
  EXPECT_NEAR(two.host.mean, 1.1, 1e-12);
  one.step({.5});
  EXPECT_NEAR(one.host.mean, .5, 1e-12);
  EXPECT_NEAR(one.host.std, 1e-4, 1e-12);
  EXPECT_EQ(one.host.count, 1);
}

// Vector V23.
TEST(Ema, EmptyAndBadStepsChangeNothing) {
  TwoTrackers tracker(10);
  tracker.step({1, 2, 3});
  EXPECT_NEAR(tracker.host.mean, 2, 1e-12);
  EXPECT_NEAR(tracker.host.std, .8164966, 1e-7);
  tracker.step({0, 4});
  EXPECT_NEAR(tracker.host.mean, 2, 1e-12);
  EXPECT_NEAR(tracker.host.std, 1.8816497, 1e-7);
  const EmaState before = tracker.host;
  tracker.step({});
  EXPECT_EQ(tracker.host, before);
  tracker.step({kNaN, 7}, 0);  // a bad step
  EXPECT_EQ(tracker.host.count, 2);
}

TEST(Ema, WhitensWithTheStateBeforeTheStep) {
  EmaTracker tracker({}, c10::kCPU);
  const Row x{.4705, .39, .2};
  EXPECT_NUMBERS(weigh(x, ema_whitening(tracker.state_3())), weigh(x), 1e-7);
  const Whitening before = ema_whitening(tracker.state_3());
  tracker.update(packed({{.9, .3, 3}}), at::full({}, 1, at::kInt));
  const Whitening after = ema_whitening(tracker.state_3());
  EXPECT_NE(numbers(after.divisor), numbers(before.divisor));
}

WeightStats stats_of(const Row& w) {
  const Tensor packed_w = packed({w});
  return *weight_stats(numbers(weight_sums(packed_w)), numbers(pack_range(weight_range(packed_w))));
}

// Vector V49.
TEST(WeightStats, EntropyMeanSpreadAndRange) {
  EXPECT_NEAR(*stats_of({1, 1, 1, 1}).entropy, 1, kTolerance);
  EXPECT_NEAR(*stats_of({.5, 1, 2}).entropy, .869916, kTolerance);
  EXPECT_NEAR(*stats_of({.1, 5}).entropy, .139233, kTolerance);
  EXPECT_EQ(*stats_of({.3}).entropy, 1);
  EXPECT_EQ(stats_of({.3}).std, 0);
  const WeightStats stats = stats_of({.5, 1, 2});
  EXPECT_NEAR(stats.mean, 1.166667, kTolerance);
  EXPECT_NEAR(stats.std, .763763, kTolerance);
  EXPECT_EQ(stats.min, .5);
  EXPECT_EQ(stats.max, 2);
  EXPECT_EQ(*stats_of({0, 3, 0}).entropy, 0);
  EXPECT_FALSE(stats_of({0, 0}).entropy);
}

TEST(WeightStats, RanksPoolAndEmptyOnesDoNotCount) {
  const Tensor a = packed({{.5, 9}}), b = packed({{1, 2}}), none = packed({{}});
  const Tensor first = at::tensor(std::vector<int>{1, 0}, at::kInt).to(at::kByte);
  Tensor sums = weight_sums(a, first) + weight_sums(b) + weight_sums(none);
  Row ranges;
  for (const Tensor& range : {weight_range(a, first), weight_range(none), weight_range(b)})
    for (const double number : numbers(pack_range(range))) ranges.push_back(number);
  const WeightStats pooled = *weight_stats(numbers(sums), ranges), whole = stats_of({.5, 1, 2});
  EXPECT_NEAR(pooled.std, whole.std, 1e-14);
  EXPECT_NEAR(*pooled.entropy, *whole.entropy, 1e-14);
  EXPECT_EQ(pooled.min, .5);
  EXPECT_EQ(pooled.max, 2);
  EXPECT_FALSE(weight_stats(numbers(weight_sums(none)), Row{}));
  EXPECT_FALSE(spread(Row{0, 0, 0}));
  EXPECT_NEAR(spread(numbers(masked_sums(packed({{.5, 1, 2}}), ones_mask(3))))->std, .763763,
              kTolerance);
}

}  // namespace
}  // namespace wmtp::weighting
