// The loss over all prediction heads, exact over ranks and micro-batches. Over the valid targets of
// head k in the whole step, with weights w:  S_k = sum w ce,  U_k = sum ce,  n_k = count,  W_k =
// sum w:
//   L  = (1/H') sum over heads with N_k > 0 of S_k / N_k;   N_k = n_k (tokens) | W_k (weights)
//   L  = (sum S_k) / (sum W_k)                              weights_joint
//   Lu = mean over heads with n_k > 0 of U_k / n_k          unweighted, always reported
//   dL/dz = w s_k (softmax(z) - onehot(y)),  s_k = 1 / (H' N_k);  weights_joint: 1 / sum W_k
// s_k is fixed before the first backward; gradients are summed, never averaged, over micro-batches
// and ranks. N tokens, H heads, M valid targets of a head.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wmtp/tensor/tensor.h"

namespace wmtp::losses {

enum class Normalization { tokens, weights, weights_joint };

// Places of one head in the packed totals.
enum HeadSum : int {
  kWeightedNll = 0,  // S
  kPlainNll = 1,     // U
  kNumTargets = 2,   // n
  kWeightTotal = 3,  // W
  kNumHeadSums = 4,
};

// fp64 [kNumHeadSums] of one head and micro-batch, on the device. A row of weight 0 adds 0 to S,
// NaN or not. weights_M undefined: 1 everywhere. present_M: 0 at rows that are in no sum, NaN or
// not, else 1; undefined: 1 everywhere.
Tensor head_sums(const Tensor& nll_M, const Tensor& weights_M = {}, const Tensor& present_M = {});

struct MtpLoss {
  double weighted = 0;                                // L
  double unweighted = 0;                              // Lu
  std::vector<std::optional<double>> head_losses;     // U_k / n_k
  std::vector<std::optional<double>> weighted_heads;  // S_k / N_k (weights_joint: S_k / W_k)
};
// sums: kNumHeadSums per head, of the whole step. Nothing where no head has a target; heads with
// N_k = 0 are left out of L, so L is 0 where all weights are.
std::optional<MtpLoss> mtp_loss(std::span<const double> sums, Normalization normalization);

// s_k of every head from n_k (tokens) or W_k (weights, weights_joint); 0 for heads without.
std::vector<double> head_scales(std::span<const double> normalizers, Normalization normalization);
// The same on the device, fp64 [H]: for W_k that were just all-reduced there.
Tensor head_scales(const Tensor& normalizers_H, Normalization normalization);

// Weights of the rows of head k: w[i + k], the weight of the predicted token. rows_M: int32.
// present_M: 0 at rows that have no target, whose weight is 0; undefined: all have one.
Tensor target_weights(const Tensor& weights_N, const Tensor& rows_M, std::int64_t head,
                      const Tensor& present_M = {});

// scale_M of nll_and_grad: w * s_k in the dtype of weights_M. `scale`: a number, or 0-d fp64 on
// the device.
Tensor row_scales(const Tensor& weights_M, double scale);
Tensor row_scales(const Tensor& weights_M, const Tensor& scale);

}  // namespace wmtp::losses
