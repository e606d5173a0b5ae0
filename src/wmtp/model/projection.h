// One linear map of a block, y = x W^T, as the forward and backward of the block call it. W may
// hold several projections one below the other (q|k|v, gate|up): one GEMM. LoRA adapters add s
// dropout(x) A^T B^T to the outputs of their own projection. N rows, I inputs, O outputs, R rank.
#pragma once
#include <optional>
#include <vector>

#include "wmtp/kernels/dropout.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

struct Adapter {
  Tensor a_RI, b_OR;
  Tensor da_RI, db_OR;  // where the gradients go; undefined: no backward pass
  double scale = 1;
  std::int64_t first_output = 0;             // of the fused matrix
  std::optional<kernels::DropoutMask> mask;  // on the adapter's input
};

struct Projection {
  Tensor weight_OI;
  Tensor dweight_OI;  // where the gradient goes; undefined: frozen, or no backward pass
  std::vector<Adapter> adapters;
  bool adds = true;  // to the gradients' places, the adapters' too; off: they hold nothing yet
};

Tensor forward(const Projection& projection, const Tensor& x_NI);
// Adds (or writes) dW, dA, dB and returns dx.
Tensor backward(const Projection& projection, const Tensor& x_NI, const Tensor& dy_NO);

}  // namespace wmtp::model
