#include "wmtp/weighting/weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "wmtp/core/error.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::weighting {

void check(const WeightOptions& options) {
  const auto refuse = [](const std::string& fact, const char* hint) {
    throw Error(ErrorKind::config, "weighting", fact, hint);
  };
  if (!(options.beta > 0 && std::isfinite(options.beta)))
    refuse(fmt::format("td.beta is {}", options.beta),
           "it must be above 0; a large one makes all weights 1");
  if (!(options.clip_min >= 0 && options.clip_min < options.clip_max &&
        std::isfinite(options.clip_max)))
    refuse(fmt::format("td.clip_min is {} and td.clip_max {}", options.clip_min, options.clip_max),
           "0 <= clip_min < clip_max must hold");
}

Tensor masked_sums(const Tensor& x_N, const Tensor& mask_N) {
  const Tensor is_in_N = mask_N.ne(0);
  const Tensor x = at::where(is_in_N, x_N.to(kFloat64), 0.0);
  return at::stack({x.sum(), x.square().sum(), is_in_N.sum(kFloat64)});
}

Whitening batch_whitening(const Tensor& sums_3) {
  const Tensor sum = sums_3.select(0, 0), squares = sums_3.select(0, 1), n = sums_3.select(0, 2);
  const Tensor mean = sum / n.clamp_min(1);
  const Tensor std = ((squares - sum * mean) / (n - 1).clamp_min(1)).clamp_min(0).sqrt();
  const Tensor is_flat = n.le(1).logical_or(std.lt(mean.abs().clamp_min(1).mul(1e-6)));
  return {mean, at::where(is_flat, std::numeric_limits<double>::infinity(), std + 1e-8)};
}

Whitening ema_whitening(const Tensor& state_3) {
  return {state_3.select(0, 0), state_3.select(0, 1) + 1e-8};
}

Whitening ema_whitening(double mean, double std, c10::Device device) {
  const auto options = at::TensorOptions().dtype(kFloat64).device(device);
  return {at::full({}, mean, options), at::full({}, std + 1e-8, options)};
}

TokenWeights token_weights(const Tensor& x_N, const Tensor& mask_N, const WeightOptions& options,
                           const Whitening& whitening) {
  check(options);
  const Tensor is_in_N = mask_N.ne(0);
  // Selected first: what lies outside the mask must not even raise a flag.
  Tensor scaled = at::where(is_in_N, x_N, 0.0);
  if (whitening.mean.defined())
    scaled = scaled.to(kFloat64).sub(whitening.mean).div(whitening.divisor).to(x_N.scalar_type());
  const Tensor raw = at::exp(scaled / options.beta);
  const Tensor outside = raw.lt(options.clip_min).logical_or_(raw.gt(options.clip_max));
  const Tensor clipped = at::clamp(raw, options.clip_min, options.clip_max);
  return {at::where(is_in_N, clipped, 0.0), outside.logical_and_(is_in_N).sum(kFloat64)};
}

}  // namespace wmtp::weighting
