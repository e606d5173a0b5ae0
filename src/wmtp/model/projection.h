// One linear map of a block, y = x W^T, as the forward and backward of the block call it. W may
// hold several projections one below the other (q|k|v, gate|up): one GEMM. LoRA adapters add s
// dropout(x) A^T B^T to the outputs of their own projection. N rows, I inputs, O outputs, R rank.
#pragma once
#include <optional>
#include <vector>

#include "wmtp/kernels/dropout.h"
#include "wmtp/kernels/float8.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

struct Adapter {
  Tensor a_RI, b_OR;
  Tensor da_RI, db_OR;  // where the gradients go (+=); undefined: no backward pass
  double scale = 1;
  std::int64_t first_output = 0;             // of the fused matrix
  std::optional<kernels::DropoutMask> mask;  // on the adapter's input
};

struct Projection {
  Tensor weight_OI;
  Tensor dweight_OI;  // where the gradient goes (+=); undefined: frozen, or no backward pass
  std::vector<Adapter> adapters;
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;  // of the products with W
  bool frozen = false;                                        // no pass has a dweight_OI
};

// `kept` (may be null): x as the weight gradient will read it, where that is in 8 bits; it stays
// undefined where W is frozen or its products are not in float8.
Tensor forward(const Projection& projection, const Tensor& x_NI,
               kernels::Float8Matrix* kept = nullptr);
// Adds dW, dA, dB and returns dx. x_NI may be undefined where there is a `kept` and no adapter.
Tensor backward(const Projection& projection, const Tensor& x_NI, const Tensor& dy_NO,
                const kernels::Float8Matrix& kept = {});

}  // namespace wmtp::model
