// From TD errors to token weights:
//   w = clamp(exp(x' / beta), clip_min, clip_max) where m = 1, else 0
//   x' = (x - mean) / divisor:  none: x' = x | batch: mean and sample std of a scope | ema: tracker
// Pure functions on device tensors; the host never waits. N tokens.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::weighting {

struct WeightOptions {
  double beta = 0.9, clip_min = 0.1, clip_max = 5;
};
// Error config outside beta > 0, 0 <= clip_min < clip_max.
void check(const WeightOptions& options);

// 0-d fp64 tensors on the device of x; both undefined: no whitening. An infinite divisor makes
// every x' 0, so every weight 1 (before clipping).
struct Whitening {
  Tensor mean, divisor;
};

// [Sx, Sxx, n] fp64 over the masked x: sum of x, of x^2, and their number. Adding vectors of
// micro-batches or ranks widens the scope: whiten `batch` with td.scope ranks, and the EMA.
Tensor masked_sums(const Tensor& x_N, const Tensor& mask_N);

// batch: mean = Sx/n, std = sqrt((Sxx - Sx^2/n) / (n-1)), divisor = std + 1e-8; infinite for
// n <= 1 or std < 1e-6 max(1, |mean|).
Whitening batch_whitening(const Tensor& sums_3);
// ema: mean = M, divisor = D + 1e-8 of the tracker's state [M, D, c] before this step (ema.h).
Whitening ema_whitening(const Tensor& state_3);
Whitening ema_whitening(double mean, double std, c10::Device device);

struct TokenWeights {
  Tensor weights_N;    // dtype of x, 0 outside the mask
  Tensor num_clipped;  // 0-d fp64: masked tokens with exp(x'/beta) strictly outside the bounds
};
TokenWeights token_weights(const Tensor& x_N, const Tensor& mask_N, const WeightOptions& options,
                           const Whitening& whitening = {});

}  // namespace wmtp::weighting
