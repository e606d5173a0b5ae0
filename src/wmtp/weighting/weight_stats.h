// Statistics of token weights and of x, from sums that ride in the step's packed all-reduce.
//   mean = W/n;  std = sample (n-1; 0 for n = 1);  min, max
//   entropy = (ln W - (sum w ln w)/W) / ln n, 0 ln 0 = 0, 1 for n = 1: in [0, 1]
// Over the step's response tokens (rho1: all valid (source, head) entries), all ranks.
#pragma once
#include <optional>
#include <span>

#include "wmtp/tensor/tensor.h"

namespace wmtp::weighting {

// Places of weight_sums: these add up over micro-batches and ranks.
enum WeightSum : int {
  kNumWeights = 0,  // n
  kSumWeights = 1,  // W
  kSumSquares = 2,  // sum of w^2
  kSumLogs = 3,     // sum of w ln w
  kNumWeightSums = 4,
};
// fp64 [kNumWeightSums] on the device. mask_N undefined: every entry counts.
Tensor weight_sums(const Tensor& weights_N, const Tensor& mask_N = {});
// fp64 [min, max] on the device over the masked entries; +inf, -inf where there is none. Of several
// micro-batches take at::minimum / at::maximum; a rank's pair goes into its own slot of the
// all-reduce, as -inf and inf of ranks without tokens must not be summed: see pack_range.
Tensor weight_range(const Tensor& weights_N, const Tensor& mask_N = {});

// One slot per rank, summed over ranks: [has, min, max] with zeros where a rank has no weights.
Tensor pack_range(const Tensor& range_2);

struct WeightStats {
  double mean = 0, std = 0, min = 0, max = 0;
  std::optional<double> entropy;  // none where W = 0
};
// sums: kNumWeightSums; ranges: 3 per rank (pack_range). Nothing for n = 0.
std::optional<WeightStats> weight_stats(std::span<const double> sums,
                                        std::span<const double> ranges);

struct Spread {
  double mean = 0, std = 0;
};
// Mean and sample std from [Sx, Sxx, n] (td/mean, td/std). Nothing for n = 0.
std::optional<Spread> spread(std::span<const double> sums_3);

}  // namespace wmtp::weighting
