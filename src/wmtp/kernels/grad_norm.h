// Sum of squares of a flat range in fp64, in a fixed order: bit-equal reruns.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

// out (0-d fp64, on the device) += sum of squares of `flat`.
void add_squared_norm(const Tensor& flat, const Tensor& out);

}  // namespace wmtp::kernels
