#include "wmtp/kernels/cuda/adamw.cuh"
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

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
  const AdamWFactors f = adamw_factors(a);
#pragma unroll
  for (int i = 0; i < N; ++i) adamw_update(a, f, grad[i], m1[i], m2[i], param[i]);
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
