#include "wmtp/kernels/gemm.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "wmtp/kernels/gpu/products.h"
#include "wmtp/kernels/support/checks.h"

namespace wmtp::kernels {

namespace {

void product_by_library(const Tensor& left_RK, const Tensor& right_KC, const Tensor& out_RC,
                        double alpha, int beta) {
  Tensor out = out_RC;
  const DType dtype = out.scalar_type();
  if (dtype == left_RK.scalar_type()) {
    if (alpha == 1 && beta == 0)
      at::mm_out(out, left_RK, right_KC);
    else
      at::addmm_out(out, out, left_RK, right_KC, beta, alpha);
  } else if (out.is_cuda()) {
    at::addmm_out(out, out, left_RK, right_KC, dtype, beta, alpha);
  } else {
    at::addmm_out(out, out, left_RK.to(dtype), right_KC.to(dtype), beta, alpha);
  }
}

// out = alpha left right + beta out; beta 0: what lies in out is not read.
void product_into(const Tensor& left_RK, const Tensor& right_KC, const Tensor& out_RC, double alpha,
                  int beta) {
  const auto by_library = [&] { product_by_library(left_RK, right_KC, out_RC, alpha, beta); };
  if (!gpu::measured_product(left_RK, right_KC, out_RC, alpha, beta, by_library)) by_library();
}

}  // namespace

void linear(const Tensor& x_NI, const Tensor& weight_OI, const Tensor& y_NO) {
  product_into(x_NI, weight_OI.t(), y_NO, 1, 0);
}

void linear_backward_input(const Tensor& dy_NO, const Tensor& weight_OI, const Tensor& dx_NI,
                           double alpha) {
  product_into(dy_NO, weight_OI, dx_NI, alpha, 0);
}

void linear_backward_weight(const Tensor& dy_NO, const Tensor& x_NI, const Tensor& dweight_OI,
                            const GradientWrite& write) {
  if (dy_NO.size(0) > 0)
    product_into(dy_NO.t(), x_NI, dweight_OI, write.alpha, write.adds ? 1 : 0);
  else if (!write.adds)
    dweight_OI.zero_();
}

void linear_add(const Tensor& x_NI, const Tensor& weight_OI, const Tensor& y_NO, double alpha) {
  product_into(x_NI, weight_OI.t(), y_NO, alpha, 1);
}

void linear_backward_input_add(const Tensor& dy_NO, const Tensor& weight_OI, const Tensor& dx_NI,
                               double alpha) {
  product_into(dy_NO, weight_OI, dx_NI, alpha, 1);
}

}  // namespace wmtp::kernels
