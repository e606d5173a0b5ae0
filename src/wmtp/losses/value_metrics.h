// What the critic learned, from values on response tokens. Per sequence (one document): vbar,
// token_variance, mean_abs_td, spikiness, position_corr (kernels/response_stats.h); averaged over
// the positive and over the negative sequences that have them. Over pairs: the share with vbar+ >
// vbar- strictly. Over all positive x negative sequences: auc = P(vbar+ > vbar-), ties 1/2.
// N packed tokens, D documents.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "wmtp/kernels/response_stats.h"
#include "wmtp/losses/value_loss.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::losses {

// fp64 [D, kNumResponseStats] on the device, no host wait; NaN marks what a sequence does not have.
Tensor sequence_stats(const Tensor& values_N, const kernels::Responses& docs);

// Rows without pairs: positive where R > 1/2. uint8 [D] on the device; documents without response
// are skipped by the sums whatever their role.
Tensor roles_from_rewards(const Tensor& reward_D);

// The per-sequence numbers that are averaged.
inline constexpr int kNumAveraged = 5;
inline constexpr std::array<std::string_view, kNumAveraged> kAveragedNames{
    "mean", "token_variance", "mean_abs_td", "spikiness", "position_corr"};
// Places of critic_sums: pairs, pairs ranked right, then for positive and negative sequences and
// each averaged number its sum and how many sequences have it.
inline constexpr int kCriticPairs = 0, kCriticCorrect = 1, kCriticAverages = 2;
inline constexpr int kNumCriticSums = kCriticAverages + 2 * 2 * kNumAveraged;

// fp64 [kNumCriticSums] on the device; adds up over micro-batches and ranks.
Tensor critic_sums(const Tensor& stats_DS, const Tensor& role_D);

struct SideMetrics {
  std::optional<double> mean, token_variance, mean_abs_td, spikiness, position_corr;
};
struct CriticMetrics {
  std::optional<double> pairwise_accuracy, margin;  // margin = positive.mean - negative.mean
  SideMetrics positive, negative;
};
CriticMetrics critic_metrics(std::span<const double> sums);

// Host, O(n log n), over vbar of all sequences of the set; nothing if a side is empty.
std::optional<double> auc(std::span<const double> positive, std::span<const double> negative);

}  // namespace wmtp::losses
