// Vectors V41 and V42: what the critic learned.
#include "wmtp/losses/value_metrics.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/packed_rows.h"

namespace wmtp::losses {
namespace {

using test::MaskRow;
using test::numbers;
using test::packed;
using test::responses;
using test::Row;

using test::kNaN;
using test::kTolerance;

Tensor roles(const std::vector<int>& role) {
  return at::tensor(role, at::kInt).to(at::kByte);
}

// Vector V41.
TEST(Critic, AccuracyMarginAndAucOfPairs) {
  const std::vector<Row> values{{.9}, {.2}, {.6}, {.6}, {.4}, {.5}};
  const auto docs = responses(std::vector<MaskRow>(6, {1}), Row(6, 0));
  const Row sums =
      numbers(critic_sums(sequence_stats(packed(values), docs), roles({1, 2, 1, 2, 1, 2})));
  const CriticMetrics metrics = critic_metrics(sums);
  EXPECT_NEAR(*metrics.pairwise_accuracy, .333333, kTolerance);
  EXPECT_NEAR(*metrics.margin, .2, kTolerance);
  EXPECT_NEAR(*auc(Row{.9, .6, .4}, Row{.2, .6, .5}), .722222, kTolerance);
  EXPECT_FALSE(metrics.positive.mean_abs_td);
  EXPECT_FALSE(metrics.positive.position_corr);
  EXPECT_EQ(*metrics.positive.token_variance, 0);
}

// Vector V42.
TEST(Critic, StatisticsOfTheValuesOfASequence) {
  const auto docs = responses({{1, 1, 1}, {0, 1, 1, 1, 1, 0}}, {0, 0});
  for (const DType dtype : {kFloat64, kFloat32}) {
    const Tensor stats =
        sequence_stats(packed({{.1, .5, .9}, {kNaN, .1, .2, .2, .8, kNaN}}, dtype), docs);
    EXPECT_NEAR(stats[0][kernels::kStatVariance].item<double>(), .106667, kTolerance);
    EXPECT_NEAR(stats[1][kernels::kStatMeanAbsTd].item<double>(), .233333, kTolerance);
    EXPECT_NEAR(stats[1][kernels::kStatSpikiness].item<double>(), 2.571428, kTolerance);
    EXPECT_NEAR(stats[1][kernels::kStatCorr].item<double>(), .846802, kTolerance);
  }
}

TEST(Critic, AveragesOnlyWhatIsThere) {
  // Positive: two tokens (no correlation), an empty response, a constant; negative: none at all.
  const auto docs = responses({{1, 1}, {0}, {1, 1, 1}}, Row(3, 0));
  const CriticMetrics metrics = critic_metrics(numbers(critic_sums(
      sequence_stats(packed({{.1, .5}, {kNaN}, {.1, .1, .1}}), docs), roles({1, 1, 1}))));
  EXPECT_FALSE(metrics.pairwise_accuracy);
  EXPECT_FALSE(metrics.margin);
  EXPECT_FALSE(metrics.negative.mean);
  EXPECT_FALSE(metrics.positive.position_corr);
  EXPECT_NEAR(*metrics.positive.mean, .2, 1e-14);
  EXPECT_NEAR(*metrics.positive.mean_abs_td, .2, 1e-14);
  EXPECT_NEAR(*metrics.positive.token_variance, .02, 1e-14);
  EXPECT_FALSE(auc(Row{}, Row{1}));
}

TEST(Critic, RowsTakeTheirRoleFromTheReward) {
  const Row got = numbers(roles_from_rewards(packed({{1, 0, .5, .7}})));
  EXPECT_EQ(got, (Row{kPositive, kNegative, kNegative, kPositive}));
}

TEST(Critic, AucEqualsTheDefinition) {
  Row positive, negative;
  for (int i = 0; i < 40; ++i)
    positive.push_back((i * 7 % 11) / 10.0), negative.push_back((i * 5 % 13) / 12.0);
  double wins = 0;
  for (const double p : positive)
    for (const double n : negative) wins += p > n ? 1 : p == n ? .5 : 0;
  EXPECT_NEAR(*auc(positive, negative), wins / 1600, 1e-14);
}

}  // namespace
}  // namespace wmtp::losses
