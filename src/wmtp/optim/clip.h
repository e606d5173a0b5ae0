// Global-norm clipping: gradients * min(1, c / (g + 1e-6)); c <= 0: no clipping.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::optim {

// 0-d tensor in `dtype` from the squared norm (0-d fp64), on its device, without a host wait.
Tensor clip_scale(const Tensor& squared_norm, double limit, c10::ScalarType dtype);

}  // namespace wmtp::optim
