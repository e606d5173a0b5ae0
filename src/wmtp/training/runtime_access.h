// The model's view of the runtime: whoever keeps the weights, the model asks for units.
#pragma once
#include "wmtp/model/weight_access.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::training {

class RuntimeAccess : public model::WeightAccess, public model::GradSink {
 public:
  explicit RuntimeAccess(parallel::Runtime& runtime) : runtime_(runtime) {}  // BORROWS

  model::UnitBuffers acquire(UnitId unit, model::Pass pass) override {
    const parallel::UnitWeights weights = runtime_.acquire(unit, pass == model::Pass::backward);
    return {weights.trained, weights.frozen, weights.float8, weights.inverse};
  }
  void release(UnitId unit, model::Pass) override { runtime_.release(unit); }
  model::UnitGrad open(UnitId unit) override {
    const parallel::OpenGrad grad = runtime_.open_grad(unit);
    return {grad.flat, grad.fresh};
  }
  void close(UnitId unit) override { runtime_.close_grad(unit); }

 private:
  parallel::Runtime& runtime_;
};

}  // namespace wmtp::training
