#include "wmtp/losses/mtp_cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "wmtp/core/error.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::losses {

Tensor head_sums(const Tensor& nll_M, const Tensor& weights_M, const Tensor& present_M) {
  Tensor nll = nll_M.to(kFloat64);
  if (present_M.defined()) nll = at::where(present_M.eq(0), 0.0, nll);
  const Tensor plain = nll.sum();
  const Tensor count = present_M.defined()
                           ? present_M.to(kFloat64).sum()
                           : at::full({}, static_cast<double>(nll.numel()), nll.options());
  if (!weights_M.defined()) return at::stack({plain, plain, count, count});
  Tensor w = weights_M.to(kFloat64);
  if (present_M.defined()) w = w * present_M;
  return at::stack({at::where(w.eq(0), 0.0, w * nll).sum(), plain, count, w.sum()});
}

std::optional<MtpLoss> mtp_loss(std::span<const double> sums, Normalization normalization) {
  WMTP_CHECK(sums.size() % kNumHeadSums == 0, "mtp_loss: four sums per head");
  MtpLoss loss;
  double plain_heads = 0, weighted_heads = 0, all_weighted = 0, all_weights = 0;
  for (std::size_t at = 0; at < sums.size(); at += kNumHeadSums) {
    const double n = sums[at + kNumTargets], weights = sums[at + kWeightTotal];
    const double divisor = normalization == Normalization::tokens ? n : weights;
    loss.head_losses.emplace_back();
    loss.weighted_heads.emplace_back();
    if (n > 0) {
      loss.head_losses.back() = sums[at + kPlainNll] / n;
      loss.unweighted += *loss.head_losses.back(), plain_heads += 1;
    }
    if (divisor > 0) {
      loss.weighted_heads.back() = sums[at + kWeightedNll] / divisor;
      loss.weighted += *loss.weighted_heads.back(), weighted_heads += 1;
    }
    all_weighted += sums[at + kWeightedNll], all_weights += weights;
  }
  if (plain_heads == 0) return std::nullopt;
  loss.unweighted /= plain_heads;
  if (weighted_heads > 0) loss.weighted /= weighted_heads;
  if (normalization == Normalization::weights_joint)
    loss.weighted = all_weights > 0 ? all_weighted / all_weights : 0;
  return loss;
}

std::vector<double> head_scales(std::span<const double> normalizers, Normalization normalization) {
  double heads = 0, total = 0;
  for (const double n : normalizers)
    if (n > 0) heads += 1, total += n;
  std::vector<double> scales;
  for (const double n : normalizers) {
    const double divisor = normalization == Normalization::weights_joint ? total : heads * n;
    scales.push_back(n > 0 ? 1 / divisor : 0);
  }
  return scales;
}

Tensor head_scales(const Tensor& normalizers_H, Normalization normalization) {
  const Tensor n = normalizers_H.to(kFloat64), has = n.gt(0);
  const Tensor divisor = normalization == Normalization::weights_joint
                             ? at::where(has, n, 0.0).sum().expand_as(n)
                             : n * has.sum(kFloat64);
  return at::where(has, divisor.reciprocal(), 0.0);
}

// Behind a row without a target there may be no token.
Tensor target_weights(const Tensor& weights_N, const Tensor& rows_M, std::int64_t head,
                      const Tensor& present_M) {
  if (!present_M.defined()) return at::index_select(weights_N, 0, rows_M + head);
  const Tensor place_M = (rows_M + head).clamp_max_(weights_N.size(0) - 1);
  return at::where(present_M.eq(0), 0.0, at::index_select(weights_N, 0, place_M));
}

Tensor row_scales(const Tensor& weights_M, double scale) {
  return weights_M.to(kFloat64).mul(scale).to(weights_M.scalar_type());
}

Tensor row_scales(const Tensor& weights_M, const Tensor& scale) {
  return weights_M.to(kFloat64).mul(scale).to(weights_M.scalar_type());
}

}  // namespace wmtp::losses
