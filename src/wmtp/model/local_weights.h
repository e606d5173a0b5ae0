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
  using Fill = std::function<void(const layout::ParamSpec&, std::int64_t begin, const Tensor& out)>;

  // OWNS one flat buffer per unit in `dtype` on `device`, and one gradient buffer if `with_grads`, zeroed.
  LocalWeights(std::vector<layout::UnitSpec> units, DType dtype, c10::Device device, bool with_grads);
  void fill(const Fill& fill);

  UnitBuffers acquire(UnitId unit, Pass) override { return {at(weights_, unit), Tensor()}; }
  void release(UnitId, Pass) override {}
  Tensor open(UnitId unit) override { return at(grads_, unit); }
  void close(UnitId) override {}

  const std::vector<layout::UnitSpec>& units() const { return units_; }
  Tensor weights(UnitId unit) const { return at(weights_, unit); }
  Tensor grads(UnitId unit) const { return at(grads_, unit); }
  // View of one parameter by name; of its gradient. Error internal for an unknown name.
  Tensor param(std::string_view name) const { return find(weights_, name); }
  Tensor grad(std::string_view name) const { return find(grads_, name); }
  void zero_grads();

 private:
  static const Tensor& at(const std::vector<Tensor>& all, UnitId unit) {
    return all.at(static_cast<std::size_t>(unit.value()));
  }
  Tensor find(const std::vector<Tensor>& flats, std::string_view name) const;

  std::vector<layout::UnitSpec> units_;
  std::vector<Tensor> weights_, grads_;
};

}  // namespace wmtp::model
