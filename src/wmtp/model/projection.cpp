#include "wmtp/model/projection.h"

#include <ATen/ops/empty.h>

#include "wmtp/kernels/gemm.h"

namespace wmtp::model {

Tensor forward(const Projection& projection, const Tensor& x_NI) {
  Tensor y_NO = at::empty({x_NI.size(0), projection.weight_OI.size(0)}, x_NI.options());
  kernels::linear(x_NI, projection.weight_OI, y_NO);
  return y_NO;
}

Tensor backward(const Projection& projection, const Tensor& x_NI, const Tensor& dy_NO) {
  if (projection.dweight_OI.defined())
    kernels::linear_backward_weight(dy_NO, x_NI, projection.dweight_OI);
  Tensor dx_NI = at::empty({dy_NO.size(0), projection.weight_OI.size(1)}, dy_NO.options());
  kernels::linear_backward_input(dy_NO, projection.weight_OI, dx_NI);
  return dx_NI;
}

}  // namespace wmtp::model
