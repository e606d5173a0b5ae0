// One element's update and the launch, for the kernels that differ in how they keep the state.
#pragma once
#include "wmtp/kernels/cuda/master.cuh"

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

inline constexpr int kAdamWThreads = 256, kAdamWPerThread = 4;

// Several elements a thread where size and pointers allow, else one. Form::run<G, C, N>(a, blocks,
// stream) starts a kernel of kAdamWThreads with gradients of G, a copy of C (void: none) and N
// elements a thread.
template <class Form, class G, class C>
int launch_adamw_of(const CudaAdamW& a, void* stream) {
  const bool whole = a.size % kAdamWPerThread == 0 && aligned(a.param) && aligned(a.param_lower) &&
                     aligned(a.exp_avg) && aligned(a.exp_avg_sq) && aligned(a.grad) &&
                     aligned(a.copy);
  const std::int64_t threads = whole ? a.size / kAdamWPerThread : a.size;
  const auto blocks = static_cast<unsigned>((threads + kAdamWThreads - 1) / kAdamWThreads);
  if (whole)
    Form::template run<G, C, kAdamWPerThread>(a, blocks, as_stream(stream));
  else
    Form::template run<G, C, 1>(a, blocks, as_stream(stream));
  return launch_status();
}

template <class Form>
int launch_adamw_form(const CudaAdamW& a, void* stream) {
  return by_element(a.grad_element, [&](auto grad) {
    return by_element(a.copy_element, [&](auto copy) {
      return launch_adamw_of<Form, decltype(grad), decltype(copy)>(a, stream);
    });
  });
}

// Of a master in planes, which has no copy.
template <class Form>
int launch_adamw_planes(const CudaAdamW& a, void* stream) {
  return by_element(a.grad_element, [&](auto grad) {
    return launch_adamw_of<Form, decltype(grad), void>(a, stream);
  });
}

}  // namespace wmtp::kernels
