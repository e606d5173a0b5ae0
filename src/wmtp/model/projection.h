// One linear map of a block, y = x W^T, as the forward and backward of the block call it. W may hold several
// projections one below the other (q|k|v, gate|up): one GEMM.
// N rows, I inputs, O outputs.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

struct Projection {
  Tensor weight_OI;
  Tensor dweight_OI;   // where the gradient goes (+=); undefined: frozen, or no backward pass
};

Tensor forward(const Projection& projection, const Tensor& x_NI);
// Adds dW and returns dx.
Tensor backward(const Projection& projection, const Tensor& x_NI, const Tensor& dy_NO);

}  // namespace wmtp::model
