#include "wmtp/model/value_head.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sigmoid.h>

#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/core/rng.h"

namespace wmtp::model {
namespace {

Tensor drop_hidden(const Tensor& x, const std::optional<kernels::DropoutMask>& mask) {
  if (!mask) return x;
  Tensor out = at::empty_like(x);
  kernels::dropout(x, *mask, out);
  return out;
}

}  // namespace

ValueHead::ValueHead(ValueHeadType type, std::int64_t dim)
    : type_(type), unit_(value_head_unit(type, dim)) {
  std::int64_t at = 0;
  for (const layout::ParamSpec& param : unit_.params) {
    if (param.shape.size() == 2) layers_.push_back({param.shape[1], param.shape[0], at});
    at += param.numel();
  }
}

Tensor ValueHead::weight(const Layer& layer, const Tensor& flat) const {
  return flat.narrow(0, layer.at, layer.outputs * layer.inputs).view({layer.outputs, layer.inputs});
}

Tensor ValueHead::bias(const Layer& layer, const Tensor& flat) const {
  return flat.narrow(0, layer.at + layer.outputs * layer.inputs, layer.outputs);
}

ValueHeadPass ValueHead::forward(const Tensor& weights, const Tensor& u_ND,
                                 std::vector<std::optional<kernels::DropoutMask>> masks) const {
  ValueHeadPass pass;
  pass.masks = std::move(masks);
  pass.masks.resize(layers_.size() - 1);
  Tensor x = u_ND;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    pass.inputs.push_back(x);
    x = at::addmm(bias(layers_[i], weights), x, weight(layers_[i], weights).t());
    if (i + 1 == layers_.size()) break;
    pass.before_gelu.push_back(x);
    x = drop_hidden(at::gelu(x), pass.masks[i]);
  }
  pass.values_N = x.squeeze(1);
  if (type_ == ValueHeadType::sigmoid) pass.values_N = at::sigmoid(pass.values_N);
  return pass;
}

Tensor ValueHead::backward(const Tensor& weights, const Tensor& grads, const ValueHeadPass& pass,
                           const Tensor& dvalues_N) const {
  Tensor dx = dvalues_N;
  if (type_ == ValueHeadType::sigmoid) dx = dx.mul(pass.values_N).mul(pass.values_N.neg().add(1));
  dx = dx.unsqueeze(1);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    weight(layers_[i], grads).addmm_(dx.t(), pass.inputs[i]);
    bias(layers_[i], grads).add_(dx.sum(0));
    dx = at::mm(dx, weight(layers_[i], weights));
    if (i > 0) dx = at::gelu_backward(drop_hidden(dx, pass.masks[i - 1]), pass.before_gelu[i - 1]);
  }
  return dx;
}

void ValueHead::draw(const layout::ParamSpec& param, std::uint64_t seed, double bias_init,
                     std::int64_t begin, const Tensor& out) const {
  WMTP_CHECK(begin >= 0 && begin + out.numel() <= param.numel(),
             "a range outside the parameter was asked for");
  const std::size_t index = [&] {
    for (std::size_t i = 0; i < unit_.params.size(); ++i)
      if (unit_.params[i].name == param.name) return i;
    throw Error(ErrorKind::internal, "model", "the value head has no parameter " + param.name);
  }();
  const bool is_bias = param.shape.size() == 1;
  if (index / 2 + 1 == layers_.size()) {
    out.fill_(is_bias ? bias_init : 0.0);
    return;
  }
  const double bound = 1.0 / std::sqrt(static_cast<double>(layers_[index / 2].inputs));
  const RngStream stream(seed, "init/" + param.name);
  const Tensor values = at::empty_like(out, out.options().dtype(at::kDouble));
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const auto element = static_cast<std::uint64_t>(begin + i);
    values.data_ptr<double>()[i] =
        static_cast<float>(bound * (2 * unit_uniform(stream.at(element / 4)[element % 4]) - 1));
  }
  out.copy_(values);
}

}  // namespace wmtp::model
