#include "wmtp/kernels/cuda/adamw.cuh"

namespace wmtp::kernels {
namespace {

template <class Master, class G, class C, int N>
__device__ __forceinline__ void update_pack(const CudaAdamW& a, const AdamWFactors& f,
                                            std::int64_t first) {
  float grad[N], m1[N], m2[N], param[N];
  load<G, N>(a.grad, first, grad);
  load<float, N>(a.exp_avg, first, m1);
  load<float, N>(a.exp_avg_sq, first, m2);
  Master::template load<N>(a, first, param);
#pragma unroll
  for (int i = 0; i < N; ++i) adamw_update(a, f, grad[i], m1[i], m2[i], param[i]);
  store<float, N>(a.exp_avg, first, m1);
  store<float, N>(a.exp_avg_sq, first, m2);
  Master::template store<N>(a, first, param);
  if constexpr (!std::is_void_v<C>)
    if (a.copy) store_computed<C, N>(a.copy, first, param);
}

template <class Master, class G, class C, int N>
__global__ void __launch_bounds__(kAdamWThreads) adamw_kernel(const CudaAdamW a) {
  if (*a.apply == 0) return;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kAdamWThreads + threadIdx.x) * N;
  if (first < a.size) update_pack<Master, G, C, N>(a, adamw_factors(a), first);
}

// Half of all threads that a multiprocessor holds, with more than half of its registers: no block
// of a product finds a place beside one of these, nor a second one of these.
constexpr int kThreadsBeside = 1024;
template <class Master, class G, int N>
__global__ void __launch_bounds__(kThreadsBeside, 1) adamw_beside_kernel(const CudaAdamW a) {
  if (*a.apply == 0) return;
  const AdamWFactors f = adamw_factors(a);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreadsBeside * N;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreadsBeside + threadIdx.x) * N;
  for (; first < a.size; first += step) update_pack<Master, G, void, N>(a, f, first);
}

// The same numbers as Plain has. REQUIRES no copy.
template <class Master>
struct Beside {
  static constexpr int kPerThread = 4;
  static constexpr std::int64_t kMostBlocks = 0x7fffffff;

  template <class G, class C, int N>
  static void run(const CudaAdamW& a, unsigned, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(a.multiprocessors);
    adamw_beside_kernel<Master, G, N><<<blocks, kThreadsBeside, 0, stream>>>(a);
  }
};

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
  if (a.param_lower && a.multiprocessors > 0)
    return launch_adamw_planes<Beside<MasterPlanes>>(a, stream);
  if (a.param_lower) return launch_adamw_planes<Plain<MasterPlanes>>(a, stream);
  return launch_adamw_form<Plain<MasterTensor<float>>>(a, stream);
}

}  // namespace wmtp::kernels
