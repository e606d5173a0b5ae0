#include "wmtp/weighting/ema.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::weighting {
namespace {

constexpr double kLeastVariance = 1e-8;

void check(double momentum, std::int64_t warmup_steps) {
  if (momentum > 0 && momentum <= 1 && warmup_steps >= 0) return;
  throw Error(ErrorKind::config, "weighting",
              fmt::format("td.ema_momentum is {}, td.ema_warmup_steps {}", momentum, warmup_steps),
              "0 < momentum <= 1 and warm-up steps >= 0 must hold");
}

}  // namespace

EmaState update(EmaState state, const MaskedSums& sums) {
  check(state.momentum, state.warmup_steps);
  if (sums.count <= 0) return state;
  const double mu = sums.sum / sums.count;
  const double sd = std::sqrt(std::max(sums.sum_of_squares / sums.count - mu * mu, kLeastVariance));
  state.count += 1;
  const double keep =
      state.count <= state.warmup_steps
          ? static_cast<double>(state.count - 1) / static_cast<double>(state.warmup_steps)
          : 1 - state.momentum;
  state.mean = keep * state.mean + (1 - keep) * mu;
  state.std = keep * state.std + (1 - keep) * sd;
  return state;
}

EmaTracker::EmaTracker(const EmaState& state, c10::Device device)
    : momentum_(state.momentum), warmup_steps_(state.warmup_steps) {
  check(momentum_, warmup_steps_);
  const Tensor host_3 = at::empty({3}, at::TensorOptions().dtype(kFloat64));
  double* values = host_3.data_ptr<double>();
  values[0] = state.mean, values[1] = state.std, values[2] = static_cast<double>(state.count);
  state_3_ = host_3.to(device);
}

void EmaTracker::update(const Tensor& sums_3, const Tensor& apply) {
  const Tensor n = sums_3.select(0, 2), mu = sums_3.select(0, 0) / n;
  const Tensor sd = (sums_3.select(0, 1) / n - mu * mu).clamp_min(kLeastVariance).sqrt();
  const Tensor count = state_3_.select(0, 2) + 1;
  const Tensor keep = at::where(
      count.le(static_cast<double>(warmup_steps_)),
      (count - 1) / static_cast<double>(std::max<std::int64_t>(warmup_steps_, 1)), 1 - momentum_);
  const Tensor mean = keep * state_3_.select(0, 0) + (1 - keep) * mu;
  const Tensor std = keep * state_3_.select(0, 1) + (1 - keep) * sd;
  const Tensor applies = apply.ne(0).logical_and_(n.gt(0));
  state_3_.copy_(at::where(applies, at::stack({mean, std, count}), state_3_));
}

EmaState EmaTracker::mirror(const double* state_3) const {
  return {state_3[0], state_3[1], std::llround(state_3[2]), momentum_, warmup_steps_};
}

EmaState EmaTracker::read() const {
  const Tensor host_3 = state_3_.cpu();
  return mirror(host_3.data_ptr<double>());
}

void EmaTracker::restore(const EmaState& state) {
  state_3_[0].fill_(state.mean);
  state_3_[1].fill_(state.std);
  state_3_[2].fill_(static_cast<double>(state.count));
}

}  // namespace wmtp::weighting
