#include "wmtp/optim/loss_scale.h"

#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>

#include "wmtp/core/error.h"

namespace wmtp::optim {

LossScale::LossScale(const LossScaleSettings& settings, c10::Device device)
    : settings_(settings),
      scale_(at::full({}, settings.start, at::TensorOptions().dtype(at::kDouble).device(device))),
      good_steps_(at::zeros({}, at::TensorOptions().dtype(at::kLong).device(device))) {
  WMTP_CHECK(settings.start >= 1 && settings.growth_interval >= 1,
             "a loss scale starts at 1 or above and grows after some steps");
}

void LossScale::update(const Tensor& overflow, const Tensor& good) {
  const Tensor run = good_steps_.add(good.to(at::kLong)).masked_fill_(overflow, 0);
  const Tensor grows = run.ge(settings_.growth_interval);
  const Tensor calm = at::where(grows, scale_.mul(2), scale_);
  scale_.copy_(at::where(overflow, scale_.mul(0.5).clamp_min_(1), calm));
  good_steps_.copy_(run.masked_fill(grows, 0));
}

LossScale::State LossScale::state() const {
  return {scale_.item<double>(), good_steps_.item<std::int64_t>()};
}

void LossScale::restore(const State& state) {
  if (!(std::isfinite(state.scale) && state.scale >= 1) || state.good_steps < 0)
    throw Error(
        ErrorKind::checkpoint, "optim",
        fmt::format("loss scale {} after {} good steps cannot be", state.scale, state.good_steps),
        "is the checkpoint damaged?");
  scale_.fill_(state.scale);
  good_steps_.fill_(state.good_steps);
}

}  // namespace wmtp::optim
