// Dynamic loss scaling for fp16: the loss is multiplied by a power of two, so that small gradients
// are not lost, and the update divides it out again. Scale and counter live on the device and are
// updated there from the step's all-reduced verdict: the host never waits, the next step already
// runs at the new scale, every rank has the same one, and what a checkpoint saves is all there is.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::optim {

struct LossScaleSettings {
  double start = 65536;
  std::int64_t growth_interval = 2000;  // good steps in a row, then the scale doubles
};

class LossScale {
 public:
  LossScale(const LossScaleSettings& settings, c10::Device device);

  // 0-d fp64 on the device; changes in place with update().
  const Tensor& value() const { return scale_; }
  // After a step; 0-d bools on the device. `overflow`: the gradient is not finite though the loss
  // is; the scale halves, never below 1. `good`: parameters were updated. Neither: nothing changes.
  void update(const Tensor& overflow, const Tensor& good);

  struct State {
    double scale = 0;
    std::int64_t good_steps = 0;  // since the scale changed
    bool operator==(const State&) const = default;
  };
  State state() const;  // BLOCKS
  void restore(const State& state);

 private:
  LossScaleSettings settings_;
  Tensor scale_, good_steps_;
};

}  // namespace wmtp::optim
