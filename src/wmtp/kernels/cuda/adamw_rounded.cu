// AdamW with bf16 moments beside a bf16 or an fp32 master, rounded stochastically
// (kernels/adamw.h).
#include "wmtp/kernels/cuda/adamw.cuh"
#include "wmtp/kernels/cuda/stochastic_rounding.cuh"

namespace wmtp::kernels {
namespace {

template <class Master, class G, class C, int N>
__device__ __forceinline__ void update(const CudaAdamW& a, const AdamWFactors& f,
                                       std::uint64_t stream, std::int64_t first) {
  float grad[N], m1[N], m2[N], param[N];
  load<G, N>(a.grad, first, grad);
  load<Bf16, N>(a.exp_avg, first, m1);
  load<Bf16, N>(a.exp_avg_sq, first, m2);
  Master::template load<N>(a, first, param);
  PhiloxDraw draw{};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    adamw_update(a, f, grad[i], m1[i], m2[i], param[i]);
    const std::uint64_t e = a.first_element + static_cast<std::uint64_t>(first) + i;
    const bool odd = e % 2 != 0;
    if (i == 0 || !odd) draw = philox(a.seed, stream, e / 2);
    const std::uint32_t word = odd ? draw.word[2] : draw.word[0];
    const std::uint32_t next = odd ? draw.word[3] : draw.word[1];
    if constexpr (Master::kRounds) param[i] = rounded(param[i], word & 0xffffu);
    m1[i] = rounded(m1[i], word >> 16);
    m2[i] = rounded(m2[i], next & 0xffffu);
  }
  store<Bf16, N>(a.exp_avg, first, m1);
  store<Bf16, N>(a.exp_avg_sq, first, m2);
  Master::template store<N>(a, first, param);
  if constexpr (!std::is_void_v<C>)
    if (a.copy) store_computed<C, N>(a.copy, first, param);
}

// Draws and roundings are much arithmetic for few bytes: the factors are found once for many
// elements.
template <class Master, class G, class C, int N>
__global__ void __launch_bounds__(kAdamWThreads) adamw_rounded_kernel(const CudaAdamW a) {
  if (*a.apply == 0) return;
  const AdamWFactors f = adamw_factors(a);
  const std::uint64_t stream = a.stream + static_cast<std::uint64_t>(*a.applied_steps + 1);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kAdamWThreads * N;
  for (std::int64_t first =
           (static_cast<std::int64_t>(blockIdx.x) * kAdamWThreads + threadIdx.x) * N;
       first < a.size; first += step)
    update<Master, G, C, N>(a, f, stream, first);
}

template <class Master>
struct Rounded {
  static constexpr int kPerThread = 8;
  static constexpr std::int64_t kMostBlocks = 4096;

  template <class G, class C, int N>
  static void run(const CudaAdamW& a, unsigned blocks, cudaStream_t stream) {
    adamw_rounded_kernel<Master, G, C, N><<<blocks, kAdamWThreads, 0, stream>>>(a);
  }
};

}  // namespace

int launch_adamw_rounded(const CudaAdamW& a, void* stream) {
  return launch_adamw_form<Rounded<MasterTensor<Bf16>>>(a, stream);
}

int launch_adamw_bf16_moments(const CudaAdamW& a, void* stream) {
  if (a.param_lower) return launch_adamw_planes<Rounded<MasterPlanes>>(a, stream);
  return launch_adamw_form<Rounded<MasterTensor<float>>>(a, stream);
}

}  // namespace wmtp::kernels
