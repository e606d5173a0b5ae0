// The seam to LibTorch's tensors: what the rest of wmtp calls a tensor. Operator headers
// (ATen/ops/<op>.h) are included by the sources that call them.
#pragma once
#include <ATen/core/Tensor.h>

namespace wmtp {

using at::Tensor;

}  // namespace wmtp
