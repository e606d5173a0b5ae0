#include "wmtp/model/local_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::model {

LocalWeights::LocalWeights(std::vector<layout::UnitSpec> units, DType dtype, c10::Device device,
                           bool with_grads)
    : units_(std::move(units)) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  for (const layout::UnitSpec& unit : units_) {
    std::int64_t trained = 0, frozen = 0;
    for (const layout::ParamSpec& param : unit.params)
      (param.trained ? trained : frozen) += param.numel();
    weights_.push_back({trained > 0 ? at::empty({trained}, options) : Tensor(),
                        frozen > 0 ? at::empty({frozen}, options) : Tensor()});
    grads_.push_back(with_grads && trained > 0 ? at::zeros({trained}, options) : Tensor());
  }
}

std::vector<LocalWeights::Place> LocalWeights::places(const std::vector<layout::UnitSpec>& units) {
  std::vector<Place> places;
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::int64_t trained = 0, frozen = 0;
    for (const layout::ParamSpec& param : units[u].params) {
      std::int64_t& at = param.trained ? trained : frozen;
      places.push_back({u, at, &param});
      at += param.numel();
    }
  }
  return places;
}

const Tensor& LocalWeights::weights_at(const Place& place) const {
  const UnitBuffers& buffers = weights_[place.unit];
  return place.param->trained ? buffers.trained : buffers.frozen;
}

void LocalWeights::fill(const ReadParam& fill) {
  for (const Place& place : places(units_)) fill(*place.param, 0, place.of(weights_at(place)));
}

LocalWeights::Place LocalWeights::find(std::string_view name) const {
  for (const Place& place : places(units_))
    if (place.param->name == name) return place;
  throw Error(ErrorKind::internal, "model", fmt::format("no parameter is called {}", name));
}

Tensor LocalWeights::param(std::string_view name) const {
  const Place place = find(name);
  return place.of(weights_at(place)).view(place.param->shape);
}

Tensor LocalWeights::grad(std::string_view name) const {
  const Place place = find(name);
  if (!place.param->trained || !grads_[place.unit].defined()) return {};
  return place.of(grads_[place.unit]).view(place.param->shape);
}

}  // namespace wmtp::model
