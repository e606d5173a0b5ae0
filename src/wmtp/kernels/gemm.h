// The three GEMMs of a linear layer y = x W^T, on ATen's mm/addmm, or on a GPU by an algorithm that
// was measured (gpu/products.h); all matrices may be row-strided views. N rows, O outputs, I
// inputs.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

void linear(const Tensor& x_NI, const Tensor& weight_OI, const Tensor& y_NO);  // y  = x W^T
void linear_backward_input(const Tensor& dy_NO, const Tensor& weight_OI, const Tensor& dx_NI,
                           double alpha = 1);  // dx = alpha dy W
// How a weight's gradient takes a product. `adds` off: what dW holds is never read, so that the
// first product of a step needs no zeroed dW.
struct GradientWrite {
  bool adds = true;
  double alpha = 1;
};
// dW (+)= alpha dy^T x, accumulated in the dtype of dW (fp32 gradients of bf16 operands included),
// in place.
void linear_backward_weight(const Tensor& dy_NO, const Tensor& x_NI, const Tensor& dweight_OI,
                            const GradientWrite& write = {});
// y += alpha x W^T and dx += alpha dy W: the low-rank paths beside a frozen weight.
void linear_add(const Tensor& x_NI, const Tensor& weight_OI, const Tensor& y_NO, double alpha);
void linear_backward_input_add(const Tensor& dy_NO, const Tensor& weight_OI, const Tensor& dx_NI,
                               double alpha = 1);

}  // namespace wmtp::kernels
