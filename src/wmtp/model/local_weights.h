// All weights and gradients of a model in one process: the plain body of WeightAccess and GradSink.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/weight_access.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::model {

class LocalWeights : public WeightAccess, public GradSink {
 public:
  // Fills elements [begin, begin + out.numel()) of a parameter.
  using ReadParam =
      std::function<void(const layout::ParamSpec&, std::int64_t begin, const Tensor& out)>;

  // OWNS per unit a flat buffer of its trained and one of its frozen parameters in `dtype` on
  // `device`, and if `with_grads` a gradient buffer of the trained ones, zeroed.
  LocalWeights(std::vector<layout::UnitSpec> units, DType dtype, c10::Device device,
               bool with_grads);
  void fill(const ReadParam& fill);

  UnitBuffers acquire(UnitId unit, Pass) override { return weights_.at(index(unit)); }
  void release(UnitId, Pass) override {}
  UnitGrad open(UnitId unit) override { return {.flat = grads_.at(index(unit))}; }
  void close(UnitId) override {}

  const std::vector<layout::UnitSpec>& units() const { return units_; }
  // View of one parameter by name. Error internal for an unknown name.
  Tensor param(std::string_view name) const;
  // View of its gradient; undefined for a frozen one and without gradients.
  Tensor grad(std::string_view name) const;

 private:
  struct Place {
    std::size_t unit = 0;
    std::int64_t begin = 0;  // in its buffer
    const layout::ParamSpec* param = nullptr;
    Tensor of(const Tensor& flat) const { return flat.narrow(0, begin, param->numel()); }
  };
  static std::size_t index(UnitId unit) { return static_cast<std::size_t>(unit.value()); }
  static std::vector<Place> places(const std::vector<layout::UnitSpec>& units);
  Place find(std::string_view name) const;
  const Tensor& weights_at(const Place& place) const;

  std::vector<layout::UnitSpec> units_;
  std::vector<UnitBuffers> weights_;
  std::vector<Tensor> grads_;
};

}  // namespace wmtp::model
