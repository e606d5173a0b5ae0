#include "wmtp/model/local_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::model {

LocalWeights::LocalWeights(std::vector<layout::UnitSpec> units, DType dtype, c10::Device device, bool with_grads)
    : units_(std::move(units)) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  for (const layout::UnitSpec& unit : units_) {
    weights_.push_back(at::empty({unit.numel()}, options));
    grads_.push_back(with_grads ? at::zeros({unit.numel()}, options) : Tensor());
  }
}

void LocalWeights::fill(const Fill& fill) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    std::int64_t offset = 0;
    for (const layout::ParamSpec& param : units_[u].params) {
      fill(param, 0, weights_[u].narrow(0, offset, param.numel()));
      offset += param.numel();
    }
  }
}

Tensor LocalWeights::find(const std::vector<Tensor>& flats, std::string_view name) const {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    std::int64_t offset = 0;
    for (const layout::ParamSpec& param : units_[u].params) {
      if (param.name == name) return flats[u].narrow(0, offset, param.numel()).view(param.shape);
      offset += param.numel();
    }
  }
  throw Error(ErrorKind::internal, "model", fmt::format("no parameter is called {}", name));
}

void LocalWeights::zero_grads() {
  for (Tensor& grad : grads_)
    if (grad.defined()) grad.zero_();
}

}  // namespace wmtp::model
