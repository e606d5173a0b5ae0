// Vectors V32 - V34: random and shuffled weights.
#include "wmtp/weighting/controls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/expect_error.h"
#include "support/packed_rows.h"

namespace wmtp::weighting {
namespace {

using test::kTolerance;
const Moments kTarget{1.328, .981};

// Vector V32.
TEST(RandomControl, ClippedLawHasTheMomentsAskedFor) {
  const LogNormal three = match_clipped(kTarget, .1, 3), five = match_clipped(kTarget, .1, 5);
  EXPECT_NEAR(three.mu, .0181630, 1e-7);
  EXPECT_NEAR(three.sigma, 1.0673970, 1e-7);
  EXPECT_NEAR(five.mu, .0442125, 1e-7);
  EXPECT_NEAR(five.sigma, .7173406, 1e-7);
  const Moments got = clipped_moments(three, .1, 3);
  EXPECT_NEAR(got.mean, kTarget.mean, 1e-10);
  EXPECT_NEAR(got.std, kTarget.std, 1e-10);
}

double normal_cdf(double x) {
  return .5 * std::erfc(-x / std::sqrt(2.0));
}

// Vector V33.
TEST(RandomControl, ClippingAnUnmatchedLawLosesItsMoments) {
  const LogNormal law = match_clipped(kTarget, .1, 3);
  EXPECT_NEAR(normal_cdf((std::log(.1) - law.mu) / law.sigma), .0148446, 1e-7);
  EXPECT_NEAR(normal_cdf(-(std::log(3.0) - law.mu) / law.sigma), .1557145, 1e-7);
  const LogNormal plain = match_unclipped(kTarget);
  EXPECT_NEAR(plain.mu, .0659405, 1e-7);
  EXPECT_NEAR(plain.sigma, .6598993, 1e-7);
  const Moments real = clipped_moments(plain, .1, 3);
  EXPECT_NEAR(real.mean, 1.261743, kTolerance);
  EXPECT_NEAR(real.std, .751071, kTolerance);
}

TEST(RandomControl, SolvesAnythingThatHasASolution) {
  for (const double lo : {0.0, .1, .9})
    for (const double mean : {1.0, 1.328, 2.5})
      for (const double share : {.02, .5, .95}) {
        const double std = share * std::sqrt((mean - lo) * (3 - mean));
        const Moments got = clipped_moments(match_clipped({mean, std}, lo, 3), lo, 3);
        EXPECT_NEAR(got.mean, mean, 1e-10);
        EXPECT_NEAR(got.std, std, 1e-10);
      }
  EXPECT_WMTP_ERROR(match_clipped({3.5, 1}, .1, 3), ErrorKind::config, "clip_max 3");
  EXPECT_WMTP_ERROR(match_clipped({1.328, 1.5}, .1, 3), ErrorKind::config, "1.4329");
  EXPECT_WMTP_ERROR(match_clipped({1.328, 0}, .1, 3), ErrorKind::config, "control.std is 0");
}

// Two documents, 4096 and 3 tokens; every other token of the first is a response.
struct Batch {
  std::vector<std::int32_t> start{0, 4096, 4099};
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(4099, 1);
  std::vector<std::uint64_t> ids{17, 99};
  Batch() {
    for (std::size_t i = 0; i < 4096; i += 2) mask[i] = 0;
  }
  HostDocuments docs() const { return {start, mask, ids}; }
};

std::vector<float> draw(const Batch& batch, const ControlKey& key) {
  std::vector<float> out(batch.mask.size(), -1);
  random_weights(match_clipped(kTarget, .1, 3), {1, .1, 3}, key, batch.docs(), out);
  return out;
}

TEST(RandomControl, HasTheMomentsAndTheKeys) {
  Batch batch;
  const std::vector<float> w = draw(batch, {5, 0});
  double sum = 0, squares = 0, n = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (!batch.mask[i]) {
      EXPECT_EQ(w[i], 0);
      continue;
    }
    EXPECT_GE(w[i], .1f);
    EXPECT_LE(w[i], 3.f);
    n += 1, sum += w[i], squares += w[i] * w[i];
  }
  EXPECT_NEAR(sum / n, kTarget.mean, 4 * kTarget.std / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n - sum * sum / n / n), kTarget.std, .06);
  EXPECT_EQ(draw(batch, {5, 0}), w);
  EXPECT_NE(draw(batch, {6, 0}), w);
  EXPECT_NE(draw(batch, {5, 1}), w);
  // A document draws the same wherever it stands.
  Batch alone;
  alone.start = {0, 3}, alone.mask = {1, 1, 1}, alone.ids = {99};
  EXPECT_EQ(draw(alone, {5, 0}), std::vector<float>(w.end() - 3, w.end()));
}

// Vector V34.
TEST(ShuffledControl, PermutesTheWeightsOfResponsesAlone) {
  const std::vector<std::int32_t> start{0, 6};
  const std::vector<std::uint8_t> mask{0, 0, 1, 1, 1, 0};
  const std::vector<std::uint64_t> ids{3};
  const std::vector<double> w{0, 0, .5, 1, 2, 0};
  bool any_moved = false;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<std::int32_t> source(6, -1);
    shuffled_sources({1, epoch}, {start, mask, ids}, source);
    std::vector<double> moved;
    for (const std::int32_t from : source) moved.push_back(w[static_cast<std::size_t>(from)]);
    EXPECT_EQ(source[0], 0);
    EXPECT_EQ(source[1], 1);
    EXPECT_EQ(source[5], 5);
    any_moved = any_moved || moved != w;
    std::sort(moved.begin() + 2, moved.begin() + 5);
    EXPECT_EQ(moved, w);
  }
  EXPECT_TRUE(any_moved);
}

TEST(ShuffledControl, StaysInsideDocumentsAndIsUniform) {
  const std::vector<std::int32_t> start{0, 3, 4, 4, 6};
  const std::vector<std::uint8_t> mask{1, 1, 1, 1, 0, 1};
  const std::vector<std::uint64_t> ids{1, 2, 3, 4};
  int counts[3] = {};
  for (std::uint64_t epoch = 0; epoch < 3000; ++epoch) {
    std::vector<std::int32_t> source(6, -1);
    shuffled_sources({1, epoch}, {start, mask, ids}, source);
    EXPECT_EQ(source[3], 3);
    EXPECT_EQ(source[4], 4);
    EXPECT_EQ(source[5], 5);
    ASSERT_LT(source[0], 3);
    counts[source[0]] += 1;
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 4 * std::sqrt(1000 * 2 / 3.0));
}

}  // namespace
}  // namespace wmtp::weighting
