#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

struct Factors {
  float keep, rate, correction2, scale;
};

// 1 - b^j = -(e^(j log b) - 1): exact enough in fp32 for every j.
__device__ __forceinline__ Factors factors_of(const CudaAdamW& a) {
  const float j = static_cast<float>(*a.applied_steps + 1);
  return {1.0f - a.learning_rate * a.weight_decay, a.learning_rate / -expm1f(j * a.log_beta1),
          1.0f / -expm1f(j * a.log_beta2), *a.grad_scale};
}

__device__ __forceinline__ void update(const CudaAdamW& a, const Factors& f, float grad, float& m1,
                                       float& m2, float& param) {
  const float g = grad * f.scale;
  m1 = a.beta1 * m1 + (1.0f - a.beta1) * g;
  m2 = a.beta2 * m2 + (1.0f - a.beta2) * g * g;
  param = param * f.keep - f.rate * m1 / (sqrtf(m2 * f.correction2) + a.eps);
}

template <class G, class C, int N>
__global__ void __launch_bounds__(kThreads) adamw_kernel(const CudaAdamW a) {
  if (*a.apply == 0) return;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (first >= a.size) return;
  float grad[N], m1[N], m2[N], param[N];
  load<G, N>(a.grad, first, grad);
  load<float, N>(a.exp_avg, first, m1);
  load<float, N>(a.exp_avg_sq, first, m2);
  load<float, N>(a.param, first, param);
  const Factors f = factors_of(a);
#pragma unroll
  for (int i = 0; i < N; ++i) update(a, f, grad[i], m1[i], m2[i], param[i]);
  store<float, N>(a.exp_avg, first, m1);
  store<float, N>(a.exp_avg_sq, first, m2);
  store<float, N>(a.param, first, param);
  if (a.copy) store<C, N>(a.copy, first, param);
}

template <class G, class C, int N>
int launch(const CudaAdamW& a, cudaStream_t stream) {
  const std::int64_t threads = a.size / N;
  const auto blocks = static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  adamw_kernel<G, C, N><<<blocks, kThreads, 0, stream>>>(a);
  return launch_status();
}

}  // namespace

int launch_adamw(const CudaAdamW& a, void* stream) {
  const bool whole = a.size % kPerThread == 0 && aligned(a.param) && aligned(a.exp_avg) &&
                     aligned(a.exp_avg_sq) && aligned(a.grad) && aligned(a.copy);
  return by_element(a.grad_element, [&](auto grad) {
    return by_element(a.copy_element, [&](auto copy) {
      using G = decltype(grad);
      using C = decltype(copy);
      return whole ? launch<G, C, kPerThread>(a, as_stream(stream))
                   : launch<G, C, 1>(a, as_stream(stream));
    });
  });
}

}  // namespace wmtp::kernels
