// A model's rotary frequencies where its kernels read them.
#pragma once
#include "wmtp/model/model_config.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::models {

// [F]; fp64 if `compute` is, else fp32.
Tensor rope_frequencies(const model::ModelConfig& config, DType compute, c10::Device device);

}  // namespace wmtp::models
