#include "wmtp/weighting/weight_stats.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/xlogy.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "wmtp/core/error.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::weighting {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The masked entries in fp64, `other` elsewhere.
Tensor masked(const Tensor& weights_N, const Tensor& mask_N, double other) {
  const Tensor wide = weights_N.to(kFloat64);
  return mask_N.defined() ? at::where(mask_N.ne(0), wide, other) : wide;
}

double sample_std(double sum, double squares, double n) {
  return n > 1 ? std::sqrt(std::max(squares - sum * sum / n, 0.0) / (n - 1)) : 0;
}

}  // namespace

Tensor weight_sums(const Tensor& weights_N, const Tensor& mask_N) {
  const Tensor w = masked(weights_N, mask_N, 0);
  const Tensor n = mask_N.defined() ? mask_N.ne(0).sum(kFloat64)
                                    : at::full({}, static_cast<double>(w.numel()), w.options());
  return at::stack({n, w.sum(), w.square().sum(), at::xlogy(w, w).sum()});
}

Tensor weight_range(const Tensor& weights_N, const Tensor& mask_N) {
  const Tensor none = at::full({1}, kInfinity, weights_N.options().dtype(kFloat64));
  return at::stack({at::cat({masked(weights_N, mask_N, kInfinity), none}).min(),
                    at::cat({masked(weights_N, mask_N, -kInfinity), none.neg()}).max()});
}

Tensor pack_range(const Tensor& range_2) {
  const Tensor has = range_2.select(0, 0).le(range_2.select(0, 1));
  return at::cat({has.to(kFloat64).unsqueeze(0), at::where(has, range_2, 0.0)});
}

std::optional<WeightStats> weight_stats(std::span<const double> sums,
                                        std::span<const double> ranges) {
  WMTP_CHECK(sums.size() == kNumWeightSums && ranges.size() % 3 == 0,
             "weight_stats: 4 sums and 3 numbers per rank");
  const double n = sums[kNumWeights], total = sums[kSumWeights];
  if (!(n > 0)) return std::nullopt;
  WeightStats stats{total / n, sample_std(total, sums[kSumSquares], n), kInfinity, -kInfinity, {}};
  for (std::size_t r = 0; r < ranges.size(); r += 3) {
    if (ranges[r] <= 0) continue;
    stats.min = std::min(stats.min, ranges[r + 1]);
    stats.max = std::max(stats.max, ranges[r + 2]);
  }
  if (n == 1)
    stats.entropy = 1;
  else if (total > 0)
    stats.entropy = (std::log(total) - sums[kSumLogs] / total) / std::log(n);
  return stats;
}

std::optional<Spread> spread(std::span<const double> sums_3) {
  WMTP_CHECK(sums_3.size() == 3, "spread: Sx, Sxx, n");
  const double n = sums_3[2];
  if (!(n > 0)) return std::nullopt;
  return Spread{sums_3[0] / n, sample_std(sums_3[0], sums_3[1], n)};
}

}  // namespace wmtp::weighting
