#include "wmtp/losses/value_metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <vector>

#include "wmtp/core/error.h"

namespace wmtp::losses {
namespace {

// Columns of the statistics that are averaged stand behind the count, in kAveragedNames' order.
static_assert(kernels::kStatMean == 1 && kernels::kStatVariance == 2 &&
              kernels::kStatMeanAbsTd == 3 && kernels::kStatSpikiness == 4 &&
              kernels::kStatCorr == 5 && kernels::kNumResponseStats == 1 + kNumAveraged);

// [kNumAveraged, 2] flat: sum and number of the sequences of that role that have the number.
Tensor side_sums(const Tensor& stats_DS, const Tensor& role_D, PairRole role) {
  const Tensor averaged_DA = stats_DS.narrow(1, 1, kNumAveraged);
  const Tensor counts_D = role_D.eq(role).logical_and_(stats_DS.select(1, 0).gt(0));
  const Tensor has_DA = counts_D.unsqueeze(1).logical_and(averaged_DA.eq(averaged_DA));
  const Tensor sum_A = at::where(has_DA, averaged_DA, 0.0).sum(0);
  return at::stack({sum_A, has_DA.sum(0, false, kFloat64)}, 1).flatten();
}

SideMetrics side_metrics(std::span<const double> sums) {
  const auto mean = [&](std::size_t i) -> std::optional<double> {
    if (sums[2 * i + 1] > 0) return sums[2 * i] / sums[2 * i + 1];
    return std::nullopt;
  };
  return {mean(0), mean(1), mean(2), mean(3), mean(4)};
}

}  // namespace

Tensor sequence_stats(const Tensor& values_N, const kernels::Responses& docs) {
  const Tensor stats_DS =
      at::empty({docs.num_docs(), kernels::kNumResponseStats}, values_N.options().dtype(kFloat64));
  kernels::response_stats(values_N, docs, stats_DS);
  return stats_DS;
}

Tensor roles_from_rewards(const Tensor& reward_D) {
  // positive = 1, negative = 2
  return reward_D.gt(0.5).logical_not_().to(kernels::kMaskType).add_(kPositive);
}

Tensor critic_sums(const Tensor& stats_DS, const Tensor& role_D) {
  const PairGaps pairs = pair_gaps(stats_DS, role_D);
  return at::cat({at::stack({pairs.is_pair_D.sum(kFloat64), pairs.gap_D.gt(0).sum(kFloat64)}),
                  side_sums(stats_DS, role_D, kPositive), side_sums(stats_DS, role_D, kNegative)});
}

CriticMetrics critic_metrics(std::span<const double> sums) {
  WMTP_CHECK(sums.size() == kNumCriticSums, "critic_metrics: the sums of critic_sums");
  CriticMetrics metrics;
  if (sums[kCriticPairs] > 0) metrics.pairwise_accuracy = sums[kCriticCorrect] / sums[kCriticPairs];
  metrics.positive = side_metrics(sums.subspan(kCriticAverages, 2 * kNumAveraged));
  metrics.negative = side_metrics(sums.subspan(kCriticAverages + 2 * kNumAveraged));
  if (metrics.positive.mean && metrics.negative.mean)
    metrics.margin = *metrics.positive.mean - *metrics.negative.mean;
  return metrics;
}

std::optional<double> auc(std::span<const double> positive, std::span<const double> negative) {
  if (positive.empty() || negative.empty()) return std::nullopt;
  std::vector<double> sorted(negative.begin(), negative.end());
  std::sort(sorted.begin(), sorted.end());
  double wins = 0;
  for (const double value : positive) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), value);
    wins += static_cast<double>(first - sorted.begin()) + 0.5 * static_cast<double>(last - first);
  }
  return wins / (static_cast<double>(positive.size()) * static_cast<double>(negative.size()));
}

}  // namespace wmtp::losses
