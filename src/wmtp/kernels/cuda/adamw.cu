#include "wmtp/kernels/cuda/adamw.cuh"

namespace wmtp::kernels {
namespace {

template <class Master, class G, class C, int N>
__global__ void __launch_bounds__(kAdamWThreads) adamw_kernel(const CudaAdamW a) {
  if (*a.apply == 0) return;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kAdamWThreads + threadIdx.x) * N;
  if (first >= a.size) return;
  float grad[N], m1[N], m2[N], param[N];
  load<G, N>(a.grad, first, grad);
  load<float, N>(a.exp_avg, first, m1);
  load<float, N>(a.exp_avg_sq, first, m2);
  Master::template load<N>(a, first, param);
  const AdamWFactors f = adamw_factors(a);
#pragma unroll
  for (int i = 0; i < N; ++i) adamw_update(a, f, grad[i], m1[i], m2[i], param[i]);
  store<float, N>(a.exp_avg, first, m1);
  store<float, N>(a.exp_avg_sq, first, m2);
  Master::template store<N>(a, first, param);
  if constexpr (!std::is_void_v<C>)
    if (a.copy) store_computed<C, N>(a.copy, first, param);
}

template <class Master>
struct Plain {
  static constexpr int kPerThread = 4;
  static constexpr std::int64_t kMostBlocks = 0x7fffffff;

  template <class G, class C, int N>
  static void run(const CudaAdamW& a, unsigned blocks, cudaStream_t stream) {
    adamw_kernel<Master, G, C, N><<<blocks, kAdamWThreads, 0, stream>>>(a);
  }
};

}  // namespace

int launch_adamw(const CudaAdamW& a, void* stream) {
  if (a.param_lower) return launch_adamw_planes<Plain<MasterPlanes>>(a, stream);
  return launch_adamw_form<Plain<MasterTensor<float>>>(a, stream);
}

}  // namespace wmtp::kernels
