#include "wmtp/kernels/gemm.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "wmtp/kernels/support/checks.h"

namespace wmtp::kernels {

void linear(const Tensor& x_NI, const Tensor& weight_OI, const Tensor& y_NO) {
  Tensor y = y_NO;
  at::mm_out(y, x_NI, weight_OI.t());
}

void linear_backward_input(const Tensor& dy_NO, const Tensor& weight_OI, const Tensor& dx_NI,
                           double alpha) {
  Tensor dx = dx_NI;
  if (alpha == 1)
    at::mm_out(dx, dy_NO, weight_OI);
  else
    at::addmm_out(dx, dx, dy_NO, weight_OI, 0, alpha);  // beta 0: what lies in dx is not read
}

void linear_backward_weight(const Tensor& dy_NO, const Tensor& x_NI, const Tensor& dweight_OI,
                            const GradientWrite& write) {
  Tensor dweight = dweight_OI;
  const DType dtype = dweight.scalar_type();
  const int beta = write.adds ? 1 : 0;
  if (dy_NO.size(0) == 0) {
    if (!write.adds) dweight.zero_();
  } else if (dtype == dy_NO.scalar_type()) {
    at::addmm_out(dweight, dweight, dy_NO.t(), x_NI, beta, write.alpha);
  } else if (dweight.is_cuda()) {
    at::addmm_out(dweight, dweight, dy_NO.t(), x_NI, dtype, beta, write.alpha);
  } else {
    at::addmm_out(dweight, dweight, dy_NO.t().to(dtype), x_NI.to(dtype), beta, write.alpha);
  }
}

void linear_add(const Tensor& x_NI, const Tensor& weight_OI, const Tensor& y_NO, double alpha) {
  Tensor y = y_NO;
  at::addmm_out(y, y, x_NI, weight_OI.t(), 1, alpha);
}

void linear_backward_input_add(const Tensor& dy_NO, const Tensor& weight_OI, const Tensor& dx_NI,
                               double alpha) {
  Tensor dx = dx_NI;
  at::addmm_out(dx, dx, dy_NO, weight_OI, 1, alpha);
}

}  // namespace wmtp::kernels
