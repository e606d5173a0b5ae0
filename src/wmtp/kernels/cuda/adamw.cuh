// One element's update, for the kernels that differ in how they keep the state.
#pragma once
#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::kernels {

struct AdamWFactors {
  float keep, rate, correction2, scale;
};

// 1 - b^j = -(e^(j log b) - 1): exact enough in fp32 for every j.
__device__ __forceinline__ AdamWFactors adamw_factors(const CudaAdamW& a) {
  const float j = static_cast<float>(*a.applied_steps + 1);
  return {1.0f - a.learning_rate * a.weight_decay, a.learning_rate / -expm1f(j * a.log_beta1),
          1.0f / -expm1f(j * a.log_beta2), *a.grad_scale};
}

__device__ __forceinline__ void adamw_update(const CudaAdamW& a, const AdamWFactors& f, float grad,
                                             float& m1, float& m2, float& param) {
  const float g = grad * f.scale;
  m1 = a.beta1 * m1 + (1.0f - a.beta1) * g;
  m2 = a.beta2 * m2 + (1.0f - a.beta2) * g * g;
  param = param * f.keep - f.rate * m1 / (sqrtf(m2 * f.correction2) + a.eps);
}

}  // namespace wmtp::kernels
