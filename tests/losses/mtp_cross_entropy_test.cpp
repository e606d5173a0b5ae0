// Vectors V01 - V04, V06 - V08, V29, V30 (losses), V50, V51; scales, laws (b) and (d).
#include "wmtp/losses/mtp_cross_entropy.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/packed_rows.h"
#include "wmtp/kernels/cross_entropy.h"

namespace wmtp::losses {
namespace {

using test::numbers;
using test::packed;
using test::Row;

using test::kNaN;
using test::kTolerance;

// Example A: losses per head; sources of head k; 2-D weights by position.
const std::vector<Row> kNll{{1, 2, 3}, {2, 4, 6}, {5, 7}};
const std::vector<std::vector<int>> kRows{{1, 2, 3}, {0, 1, 2}, {0, 1}};
const Row kWeights{0, 0, .5, 1, 2, 0};
const std::vector<Row> kColumns{{1, 0, 1}, {0, 1, 1}, {1, 0}};  // 3-D weights at the sources

Row all_sums(const std::vector<Tensor>& weights) {
  Row sums;
  for (std::size_t k = 0; k < kNll.size(); ++k)
    for (const double sum : numbers(head_sums(packed({kNll[k]}), weights[k]))) sums.push_back(sum);
  return sums;
}
Row flat_sums() {
  return all_sums({{}, {}, {}});
}
Row two_d_sums() {
  std::vector<Tensor> weights;
  for (std::size_t k = 0; k < 3; ++k)
    weights.push_back(target_weights(packed({kWeights}), at::tensor(kRows[k], at::kInt),
                                     static_cast<std::int64_t>(k) + 1));
  return all_sums(weights);
}
Row given_sums(const std::vector<Row>& columns) {
  std::vector<Tensor> weights;
  for (const Row& column : columns) weights.push_back(packed({column}));
  return all_sums(weights);
}
Row present(const std::vector<std::optional<double>>& heads) {
  Row out;
  for (const auto& head : heads)
    if (head) out.push_back(*head);
  return out;
}

// A row without a target may be the last one, or have NaN behind it.
TEST(MtpCrossEntropy, RowsThatFillUpWeighNothing) {
  const Tensor rows_M = at::tensor(std::vector<int>{0, 1, 2, 3}, at::kInt);
  const Tensor weights_N = packed({{.5, .25, NAN, 2}}), present_M = packed({{1, 0, 1, 0}});
  EXPECT_EQ(numbers(target_weights(weights_N, rows_M, 1, present_M)), (Row{.25, 0, 2, 0}));
}

// Vector V01.
TEST(MtpLoss, WithoutWeightsIsTheMeanOverHeads) {
  const Row sums = flat_sums();
  const MtpLoss loss = *mtp_loss(sums, Normalization::tokens);
  EXPECT_EQ((Row{sums[kNumTargets], sums[4 + kNumTargets], sums[8 + kNumTargets]}), (Row{3, 3, 2}));
  EXPECT_NUMBERS(present(loss.head_losses), (Row{2, 4, 6}), kTolerance);
  EXPECT_NEAR(loss.unweighted, 4, kTolerance);
  EXPECT_NEAR(loss.weighted, 4, kTolerance);
}

// Vectors V02, V03.
TEST(MtpLoss, WeightsByPositionOverTokensOrWeights) {
  const MtpLoss tokens = *mtp_loss(two_d_sums(), Normalization::tokens);
  EXPECT_NUMBERS(present(tokens.weighted_heads), (Row{2.833333, 5.666667, 9.5}), kTolerance);
  EXPECT_NEAR(tokens.weighted, 6, kTolerance);
  EXPECT_NEAR(tokens.unweighted, 4, kTolerance);
  const MtpLoss weights = *mtp_loss(two_d_sums(), Normalization::weights);
  EXPECT_NUMBERS(present(weights.weighted_heads), (Row{2.428571, 4.857143, 6.333333}), kTolerance);
  EXPECT_NEAR(weights.weighted, 4.539683, kTolerance);
}

// Vector V04.
TEST(MtpLoss, WeightsByHeadUnderEveryNormalization) {
  const Row sums = given_sums(kColumns);
  EXPECT_NEAR(mtp_loss(sums, Normalization::tokens)->weighted, 2.388889, kTolerance);
  EXPECT_NEAR(mtp_loss(sums, Normalization::weights)->weighted, 4, kTolerance);
  EXPECT_NEAR(mtp_loss(sums, Normalization::weights_joint)->weighted, 3.8, kTolerance);
}

// Vector V06.
TEST(MtpLoss, HeadsWithoutTargetsDoNotCount) {
  const Row sums{3, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  const MtpLoss loss = *mtp_loss(sums, Normalization::tokens);
  EXPECT_EQ(present(loss.weighted_heads).size(), 1u);
  EXPECT_EQ(loss.weighted, 3);
  EXPECT_EQ(loss.unweighted, 3);
  EXPECT_EQ(head_scales(Row{1, 0, 0}, Normalization::tokens), (std::vector<double>{1, 0, 0}));
  EXPECT_FALSE(mtp_loss(Row{0, 0, 0, 0}, Normalization::tokens));
}

// Vector V07.
TEST(MtpLoss, GradientOfOneWeightedTarget) {
  const Tensor logits = packed({{.5, -1, 2}}).view({1, 3}), nll = at::zeros({1}, at::kDouble);
  // H' = 3 heads of N_k = 3.
  const double scale = head_scales(Row{3, 3, 3}, Normalization::tokens)[0];
  kernels::cross_entropy(
      {logits, at::zeros({1}, at::kInt), nll, row_scales(packed({{.5}}), scale), {}});
  EXPECT_NEAR(nll.item<double>(), 1.741311, kTolerance);
  EXPECT_NUMBERS(numbers(logits), (Row{-.0458172, .0021729, .0436443}), 1e-7);
}

// Sums of parts, however grouped.
// Vector V08.
TEST(MtpLoss, SumsOfPartsGiveTheWholeHoweverGrouped) {
  const Row parts_s{6, 10, 0, 12}, parts_n{3, 1, 0, 4};
  Row sums(4, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    sums[kWeightedNll] += parts_s[i], sums[kPlainNll] += parts_s[i];
    sums[kNumTargets] += parts_n[i], sums[kWeightTotal] += parts_n[i];
  }
  EXPECT_NEAR(mtp_loss(sums, Normalization::tokens)->weighted, 3.5, kTolerance);
}

// What rho1 selects in example A (tests/weighting/rho1_test.cpp) as losses.
// Vectors V29, V30.
TEST(MtpLoss, SelectionsOfRho1AsLosses) {
  const Row always = given_sums({{1, 1, 1}, {0, 1, 1}, {0, 1}});
  EXPECT_NEAR(mtp_loss(always, Normalization::weights)->weighted, 4.666667, kTolerance);
  EXPECT_NEAR(mtp_loss(always, Normalization::tokens)->weighted, 2.944444, kTolerance);
  double selected = 0, valid = 0;
  for (std::size_t k = 0; k < 3; ++k)
    selected += always[4 * k + kWeightTotal], valid += always[4 * k + kNumTargets];
  EXPECT_NEAR(selected / valid, .75, kTolerance);  // selection_ratio
  EXPECT_NEAR(selected / 3, 2, kTolerance);        // avg_heads_per_pos: sum of m is 3
  const auto loss = [](const std::vector<Row>& columns) {
    return mtp_loss(given_sums(columns), Normalization::weights)->weighted;
  };
  EXPECT_NEAR(loss({{0, 1, 1}, {0, 1, 1}, {0, 1}}), 4.833333, kTolerance);  // signed
  EXPECT_NEAR(loss({{1, 1, 0}, {0, 1, 1}, {0, 1}}), 4.5, kTolerance);       // absolute
  EXPECT_NEAR(loss({{1, 0, 1}, {1, 0, 1}, {0, 1}}), 4.333333, kTolerance);  // difficult
}

// Vectors V50, V51.
TEST(MtpLoss, SumsOfRanksAndTheJointLoss) {
  for (const std::vector<Row>& ranks : {std::vector<Row>{{6, 6, 3, 3, 10, 10, 1, 1}},
                                        {{6, 6, 3, 3}, {10, 10, 1, 1}},
                                        {{6, 6, 3, 3}, {10, 10, 1, 1}, {}}}) {
    Row sums(4, 0);
    for (const Row& rank : ranks)
      for (std::size_t i = 0; i < rank.size(); ++i) sums[i % 4] += rank[i];
    EXPECT_NEAR(mtp_loss(sums, Normalization::tokens)->unweighted, 4, kTolerance);
  }
  const double joint = mtp_loss(two_d_sums(), Normalization::tokens)->weighted + .5 * .4;
  EXPECT_NEAR(joint, 6.2, kTolerance);
}

TEST(HeadScales, HostEqualsDevice) {
  for (const Normalization normalization :
       {Normalization::tokens, Normalization::weights, Normalization::weights_joint})
    for (const Row& normalizers : {Row{3, 0, 2}, Row{0, 0}, Row{.5, 4, 1.25, 7}})
      EXPECT_NUMBERS(numbers(head_scales(packed({normalizers}), normalization)),
                     Row(head_scales(normalizers, normalization)), 1e-15);
  EXPECT_NUMBERS(Row(head_scales(Row{3, 0, 2}, Normalization::weights)), (Row{1 / 6., 0, 1 / 4.}),
                 1e-15);
  EXPECT_NUMBERS(Row(head_scales(Row{3, 0, 2}, Normalization::weights_joint)),
                 (Row{1 / 5., 0, 1 / 5.}), 1e-15);
}

// Laws (b) and (d): all weights equal and `weights` is the unweighted loss; a common factor
// cancels.
TEST(MtpLoss, EqualWeightsAreTheUnweightedLoss) {
  const MtpLoss plain = *mtp_loss(flat_sums(), Normalization::tokens);
  for (const double weight : {1.0, .3}) {
    const Row sums =
        given_sums({{weight, weight, weight}, {weight, weight, weight}, {weight, weight}});
    EXPECT_NEAR(mtp_loss(sums, Normalization::weights)->weighted, plain.unweighted, 1e-12);
    EXPECT_NEAR(mtp_loss(sums, Normalization::tokens)->weighted, weight * plain.unweighted, 1e-12);
  }
}

TEST(HeadSums, WeightZeroSelectsNaNOut) {
  const Row sums = numbers(head_sums(packed({{1, kNaN, 3}}), packed({{1, 0, .5}})));
  EXPECT_EQ(sums[kWeightedNll], 2.5);
  EXPECT_TRUE(std::isnan(sums[kPlainNll]));
  EXPECT_EQ(sums[kWeightTotal], 1.5);
  const Row none = numbers(head_sums(packed({{}})));
  EXPECT_EQ(none, (Row{0, 0, 0, 0}));
}

TEST(HeadSums, RowsThatOnlyFillUpAreInNone) {
  const Tensor present = packed({{1, 0, 1}}, kFloat32);
  const Row uniform = numbers(head_sums(packed({{1, kNaN, 3}}), {}, present));
  EXPECT_EQ(uniform, numbers(head_sums(packed({{1, 3}}))));
  const Row weighted = numbers(head_sums(packed({{1, kNaN, 3}}), packed({{.5, 7, .25}}), present));
  EXPECT_EQ(weighted, numbers(head_sums(packed({{1, 3}}), packed({{.5, .25}}))));
}

// So that a step that reads them on the device has the bits of one that does not.
TEST(HeadScales, NumbersOrTensorGiveTheSameBits) {
  for (const auto normalization : {Normalization::tokens, Normalization::weights_joint})
    for (const double n : {1., 3., 7., 49., 1013., 65537.}) {
      const Row counts{n, 0, 2 * n / 3, n - .5};
      EXPECT_EQ(numbers(head_scales(packed({counts}), normalization)),
                head_scales(counts, normalization));
    }
}

TEST(RowScales, NumberOrTensorGiveTheSame) {
  const Tensor weights = packed({{.5, 0, 2}}, kFloat32);
  const Tensor by_number = row_scales(weights, 1 / 3.),
               by_tensor = row_scales(weights, at::full({}, 1 / 3., at::kDouble));
  EXPECT_EQ(by_number.scalar_type(), kFloat32);
  EXPECT_TRUE(by_number.equal(by_tensor));
}

}  // namespace
}  // namespace wmtp::losses
