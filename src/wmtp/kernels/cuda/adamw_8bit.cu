// AdamW on a bf16 master with moments in 8 bits (kernels/adamw.h, codes/moment_codes.h): a thread
// has an element, a thread block one of the moments' blocks.
#include "wmtp/kernels/codes/dynamic_map_bits.h"
#include "wmtp/kernels/cuda/adamw.cuh"
#include "wmtp/kernels/cuda/stochastic_rounding.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kBlock = 256;
constexpr float kLeastScale = 1e-12f;

// In global memory: constant memory serves lanes that ask for different entries one by one.
__device__ const DynamicMapBits kFirstBits = kSignedMapBits;
__device__ const DynamicMapBits kSecondBits = kUnsignedMapBits;

// The map of one moment, and the largest magnitude of its block by its bits, which no order of
// threads changes.
struct SharedMoment {
  float value[kBlock];
  unsigned int largest;

  __device__ void open(const DynamicMapBits& bits) {
    value[threadIdx.x] = __uint_as_float(bits.value[threadIdx.x]);
    if (threadIdx.x == 0) largest = 0;
  }
  __device__ float scale() const {
    const float magnitude = __uint_as_float(largest);
    return magnitude < kLeastScale ? kLeastScale : magnitude;
  }
  // The last value <= y by halves, or the next one where y is at least halfway there.
  __device__ int nearest(float y) const {
    int code = 0;
#pragma unroll
    for (int step = kBlock / 2; step > 0; step /= 2)
      if (value[code + step] <= y) code += step;
    if (code == kBlock - 1) return code;
    const float down = value[code];
    return y - down >= 0.5f * (value[code + 1] - down) ? code + 1 : code;
  }
};

template <class G, class C>
__global__ void __launch_bounds__(kBlock) adamw_8bit_kernel(const CudaAdamW a) {
  if (*a.apply == 0) return;
  __shared__ SharedMoment first, second;
  first.open(kFirstBits);
  second.open(kSecondBits);
  __syncthreads();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const bool inside = i < a.size;  // the last block may be short
  auto* codes1 = static_cast<std::uint8_t*>(a.exp_avg);
  auto* codes2 = static_cast<std::uint8_t*>(a.exp_avg_sq);
  float m1 = 0, m2 = 0;
  if (inside) {
    m1 = first.value[codes1[i]] * a.exp_avg_scales[blockIdx.x];
    m2 = second.value[codes2[i]] * a.exp_avg_sq_scales[blockIdx.x];
    float param = to_float(static_cast<const Bf16*>(a.param)[i]);
    adamw_update(a, adamw_factors(a), to_float(static_cast<const G*>(a.grad)[i]), m1, m2, param);
    const std::uint64_t e = a.first_element + static_cast<std::uint64_t>(i);
    const std::uint64_t stream = a.stream + static_cast<std::uint64_t>(*a.applied_steps + 1);
    const PhiloxDraw draw = philox(a.seed, stream, e / 2);
    param = rounded(param, (e % 2 != 0 ? draw.word[2] : draw.word[0]) & 0xffffu);
    static_cast<Bf16*>(a.param)[i] = from_float<Bf16>(param);
    if (a.copy) static_cast<C*>(a.copy)[i] = from_float<C>(param);
    atomicMax(&first.largest, __float_as_uint(m1) & 0x7fffffffu);
    atomicMax(&second.largest, __float_as_uint(m2) & 0x7fffffffu);
  }
  __syncthreads();
  const float scale1 = first.scale(), scale2 = second.scale();
  if (threadIdx.x == 0) {
    a.exp_avg_scales[blockIdx.x] = scale1;
    a.exp_avg_sq_scales[blockIdx.x] = scale2;
  }
  if (!inside) return;
  const int code2 = second.nearest(__fdiv_rn(m2, scale2));
  codes1[i] = static_cast<std::uint8_t>(first.nearest(__fdiv_rn(m1, scale1)));
  codes2[i] = static_cast<std::uint8_t>(code2 == 0 && m2 > 0 ? 1 : code2);
}

}  // namespace

int launch_adamw_8bit(const CudaAdamW& a, void* stream) {
  const auto blocks = static_cast<unsigned>((a.size + kBlock - 1) / kBlock);
  return by_element(a.grad_element, [&](auto grad) {
    return by_element(a.copy_element, [&](auto copy) {
      adamw_8bit_kernel<decltype(grad), decltype(copy)>
          <<<blocks, kBlock, 0, as_stream(stream)>>>(a);
      return launch_status();
    });
  });
}

}  // namespace wmtp::kernels
