// Vectors V26 - V31: counts, ties, thresholds, example A, scope ranks.
#include "wmtp/weighting/rho1.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"
#include "support/packed_rows.h"

namespace wmtp::weighting {
namespace {

using test::numbers;
using test::packed;
using test::Row;

using test::kTolerance;
constexpr std::int64_t kSixty = 600'000;

std::vector<std::size_t> picked(const Selection& selection) {
  std::vector<std::size_t> places;
  const Row weights = numbers(selection.weights_M);
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (weights[i] != 0) {
      EXPECT_EQ(weights[i], 1);
      places.push_back(i);
    }
  return places;
}
using Places = std::vector<std::size_t>;

double theta(const Selection& selection) {
  return numbers(selection.summary_3)[2];
}

// Vector V26.
TEST(Rho1, HowManyAreSelected) {
  const std::vector<std::int64_t> n{0, 1, 2, 3, 5, 6, 11}, counts{0, 1, 1, 2, 3, 4, 7};
  for (std::size_t i = 0; i < n.size(); ++i)
    EXPECT_EQ(selected_count(n[i], kSixty), counts[i]) << n[i];
  EXPECT_EQ(selected_count(11, share_in_millionths(.7)), 8);
  EXPECT_EQ(selected_count(1000, share_in_millionths(.7)), 700);
  EXPECT_EQ(selected_count(5, share_in_millionths(1)), 5);
}

// Vector V27.
TEST(Rho1, ThresholdIsTheLinearQuantile) {
  for (const DType dtype : {kFloat64, kFloat32}) {
    const Selection five = select(packed({{-.2, .1, .5, .9, 1.3}}, dtype), kSixty);
    EXPECT_NEAR(theta(five), .34, kTolerance);
    EXPECT_EQ(picked(five), (Places{2, 3, 4}));
    EXPECT_EQ(five.weights_M.scalar_type(), dtype);
  }
}

// Vector V28.
TEST(Rho1, OfEqualScoresTheFirstAreSelected) {
  EXPECT_EQ(picked(select(packed({{0, 0, 0, 0, 0}}), kSixty)), (Places{0, 1, 2}));
  EXPECT_EQ(picked(select(packed({{0, -0.0, 0, -0.0, 0}}), kSixty)), (Places{0, 1, 2}));
  const Selection two = select(packed({{1, 2, 2, 2, 3}}), 400'000);
  EXPECT_EQ(picked(two), (Places{1, 4}));
  EXPECT_NEAR(theta(two), 2, kTolerance);
}

// Example A: heads 1..3 with their losses and the reference's losses of the same targets.
struct ExampleA {
  std::vector<Row> nll{{1, 2, 3}, {2, 4, 6}, {5, 7}};
  std::vector<Row> reference{{1.5, 1, 2.5}, {1.5, 1, 2.5}, {1, 2.5}};

  Selection of(std::size_t head, Rho1Mode mode) const {
    return select(scores(mode, packed({nll[head]}), packed({reference[head]})), kSixty);
  }
};

// Vectors V29 to V31.
TEST(Rho1, SelectionsOfEveryHeadAndMode) {
  const ExampleA a;
  EXPECT_EQ(picked(a.of(1, Rho1Mode::signed_excess)), (Places{1, 2}));
  EXPECT_EQ(picked(a.of(2, Rho1Mode::signed_excess)), (Places{1}));
  const double thetas[] = {.3, 2.5, 4.2};
  for (std::size_t head = 0; head < 3; ++head)
    EXPECT_NEAR(theta(a.of(head, Rho1Mode::signed_excess)), thetas[head], kTolerance);
  // Places of head 1 are sources 1, 2, 3; of head 2 sources 0, 1, 2; of head 3 sources 0, 1.
  EXPECT_EQ(picked(a.of(0, Rho1Mode::signed_excess)), (Places{1, 2}));
  EXPECT_EQ(picked(a.of(0, Rho1Mode::absolute)), (Places{0, 1}));
  EXPECT_EQ(picked(a.of(0, Rho1Mode::difficult)), (Places{0, 2}));
  EXPECT_EQ(picked(a.of(1, Rho1Mode::difficult)), (Places{0, 2}));
  EXPECT_EQ(picked(a.of(2, Rho1Mode::difficult)), (Places{1}));
  EXPECT_NEAR(theta(a.of(1, Rho1Mode::difficult)), 1.4, kTolerance);
  EXPECT_NEAR(theta(a.of(2, Rho1Mode::difficult)), 1.6, kTolerance);
}

TEST(Rho1, EmptyAndSingle) {
  const Selection none = select(packed({{}}), kSixty);
  EXPECT_EQ(numbers(none.summary_3)[0], 0);
  EXPECT_EQ(numbers(none.summary_3)[1], 0);
  EXPECT_TRUE(std::isnan(theta(none)));
  EXPECT_EQ(picked(select(packed({{-3}}), 1)), (Places{0}));
  EXPECT_EQ(picked(select(packed({{3, 1, 2}}), 1'000'000)), (Places{0, 1, 2}));
}

// NaN is a bad step's business; the number selected stays the same.
TEST(Rho1, NaNKeepsTheCount) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(picked(select(packed({{1, nan, 3, -HUGE_VAL, nan}}), kSixty)), (Places{1, 2, 4}));
  EXPECT_EQ(bad_losses(packed({{1, nan, 3, HUGE_VAL}})).item<std::int64_t>(), 2);
}

// Rows that only fill up: their scores are nobody's, and more places are asked for than are
// selected.
TEST(Rho1, WhatFillsUpIsNoScore) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor scores_M = packed({{9, -.2, .1, nan, .5, .9, 1.3, 8}});
  const Tensor present_M = packed({{0, 1, 1, 0, 1, 1, 1, 0}});
  const Selection found = select(scores_M, kSixty, present_M);
  EXPECT_EQ(picked(found), (Places{4, 5, 6}));
  EXPECT_NEAR(theta(found), .34, kTolerance);
  EXPECT_EQ(numbers(selected_places(found.weights_M, 3, /*is_bound=*/false)), (Row{4, 5, 6}));
  EXPECT_EQ(numbers(selected_places(found.weights_M, 5, /*is_bound=*/true)), (Row{0, 1, 4, 5, 6}));
}

// Three ranks, one of them empty: as one vector over all, ties by rank and then by place.
TEST(Rho1, ScopeRanksEqualsOneVector) {
  const double junk = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Row> ranks{{2, 1, 2}, {}, {2, 5, 0, 2}};
  const Tensor gathered =
      packed({{2, 1, 2, junk, junk}, {junk, 9, 9, 9, 9}, {2, 5, 0, 2, junk}}).view({3, 5});
  const Tensor counts = at::tensor(std::vector<int>{3, 0, 4}, at::kInt);
  const Selection whole = select(packed(ranks), kSixty);
  Row pieces;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const auto own = static_cast<std::int64_t>(ranks[static_cast<std::size_t>(rank)].size());
    const Selection part = select_over_ranks({gathered, counts, rank, own}, kSixty);
    for (const double weight : numbers(part.weights_M)) pieces.push_back(weight);
    EXPECT_EQ(numbers(part.summary_3), numbers(whole.summary_3));
  }
  EXPECT_EQ(pieces, numbers(whole.weights_M));
}

TEST(Rho1, RefusesShares) {
  EXPECT_WMTP_ERROR(share_in_millionths(0), ErrorKind::config, "k_percent is 0");
  EXPECT_WMTP_ERROR(share_in_millionths(60), ErrorKind::config, "k_percent is 60");
  EXPECT_WMTP_ERROR(share_in_millionths(std::nan("")), ErrorKind::config, "k_percent is nan");
}

}  // namespace
}  // namespace wmtp::weighting
