// One element's update and the launch, for the kernels that differ in how they keep the state.
#pragma once
#include "wmtp/kernels/cuda/master.cuh"

namespace wmtp::kernels {

struct AdamWFactors {
  float keep, rate, correction2, scale;
};

// Every operation below is told how it rounds: what the compiler would contract differs between the
// instances of the kernels, and all of them are to give the same bits.

// 1 - b^j = -(e^(j log b) - 1): exact enough in fp32 for every j.
__device__ __forceinline__ AdamWFactors adamw_factors(const CudaAdamW& a) {
  const float j = static_cast<float>(*a.applied_steps + 1);
  return {__fsub_rn(1.0f, __fmul_rn(a.learning_rate, a.weight_decay)),
          __fdiv_rn(a.learning_rate, -expm1f(__fmul_rn(j, a.log_beta1))),
          __fdiv_rn(1.0f, -expm1f(__fmul_rn(j, a.log_beta2))), *a.grad_scale};
}

__device__ __forceinline__ void adamw_update(const CudaAdamW& a, const AdamWFactors& f, float grad,
                                             float& m1, float& m2, float& param) {
  const float g = __fmul_rn(grad, f.scale);
  m1 = __fmaf_rn(a.beta1, m1, __fmul_rn(__fsub_rn(1.0f, a.beta1), g));
  m2 = __fmaf_rn(a.beta2, m2, __fmul_rn(__fmul_rn(__fsub_rn(1.0f, a.beta2), g), g));
  const float root = __fadd_rn(__fsqrt_rn(__fmul_rn(m2, f.correction2)), a.eps);
  param = __fmaf_rn(param, f.keep, -__fdiv_rn(__fmul_rn(f.rate, m1), root));
}

inline constexpr int kAdamWThreads = 256;

// Form::kPerThread elements a thread where size and pointers allow, else one, and kMostBlocks
// thread blocks at most. Form::run<G, C, N>(a, blocks, stream) starts a kernel of kAdamWThreads
// with gradients of G, a copy of C (void: none) and N elements a thread.
template <class Form, class G, class C>
int launch_adamw_of(const CudaAdamW& a, void* stream) {
  constexpr int kPerThread = Form::kPerThread;
  const bool whole = a.size % kPerThread == 0 && aligned(a.param) && aligned(a.param_lower) &&
                     aligned(a.exp_avg) && aligned(a.exp_avg_sq) && aligned(a.grad) &&
                     aligned(a.copy);
  const std::int64_t threads = whole ? a.size / kPerThread : a.size;
  const std::int64_t blocks = (threads + kAdamWThreads - 1) / kAdamWThreads;
  const auto grid = static_cast<unsigned>(blocks < Form::kMostBlocks ? blocks : Form::kMostBlocks);
  if (whole)
    Form::template run<G, C, kPerThread>(a, grid, as_stream(stream));
  else
    Form::template run<G, C, 1>(a, grid, as_stream(stream));
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
