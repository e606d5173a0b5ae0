// AdamW on a bf16 master with moments in 8 bits (kernels/adamw.h, codes/moment_codes.h): a warp has
// one of the moments' blocks, a lane eight neighbours of it.
#include "wmtp/kernels/codes/dynamic_map_bits.h"
#include "wmtp/kernels/cuda/adamw.cuh"
#include "wmtp/kernels/cuda/float8.cuh"
#include "wmtp/kernels/cuda/stochastic_rounding.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kCodes = 256, kBlock = 256, kThreads = 256, kWarps = kThreads / 32;
constexpr int kPerLane = kBlock / 32;
constexpr std::int64_t kMostBlocks = 1024;  // of threads: each makes the tables once
constexpr float kLeastScale = 1e-12f;

// Magnitudes by their exponent and six bits of the fraction, from 2^-23, below which every number
// takes the code of 0, to 1: among those of one key at most two codes begin.
constexpr int kKeyShift = 17, kBelowKeys = (104 << 6) - 1, kKeys = 23 * 64 + 2;

// In global memory: constant memory serves lanes that ask for different entries one by one.
__device__ const DynamicMapBits kFirstBits = kSignedMapBits;
__device__ const DynamicMapBits kSecondBits = kUnsignedMapBits;

// Numbers in their own order as integers, both ways.
__device__ __forceinline__ int rank_of(float y) {
  const int bits = __float_as_int(y);
  return bits < 0 ? static_cast<int>(0x80000000u - static_cast<unsigned>(bits)) : bits;
}
__device__ __forceinline__ float of_rank(int rank) {
  return __int_as_float(rank < 0 ? static_cast<int>(0x80000000u - static_cast<unsigned>(rank))
                                 : rank);
}

// The map of one moment, in shared memory.
struct Codes {
  float value[kCodes];
  float step[kCodes];             // the least number that takes a code above this one
  std::uint8_t start[2 * kKeys];  // the code of the least number of a key, negative ones behind

  // REQUIRES all kThreads of the block.
  __device__ void open(const DynamicMapBits& bits) {
    const int t = static_cast<int>(threadIdx.x);
    value[t] = __uint_as_float(bits.value[t]);
    __syncthreads();
    step[t] = t + 1 < kCodes ? step_above(t) : __uint_as_float(0x7fc00000u);
    __syncthreads();
    for (int key = t; key < 2 * kKeys; key += kThreads)
      start[key] = static_cast<std::uint8_t>(code_at_most(least_of(key)));
    __syncthreads();
  }

  // The nearest value's: of the last value <= y and the next one this where y is at least halfway.
  __device__ __forceinline__ int nearest(float y) const {
    const int upper = static_cast<int>((__float_as_uint(y) & 0x7fffffffu) >> kKeyShift);
    const int key = min(max(upper - kBelowKeys, 0), kKeys - 1);
    int code = start[__float_as_int(y) < 0 ? kKeys + key : key];
    code += y >= step[code];
    code += y >= step[code];
    return code;
  }

 private:
  // By halving the numbers between two neighbours.
  __device__ float step_above(int code) const {
    const float down = value[code], half = __fmul_rn(0.5f, __fsub_rn(value[code + 1], down));
    int below = rank_of(down), above = rank_of(value[code + 1]);
    while (above - below > 1) {
      const int middle = below + (above - below) / 2;
      (__fsub_rn(of_rank(middle), down) >= half ? above : below) = middle;
    }
    return of_rank(above);
  }
  __device__ static float least_of(int key) {
    const bool negative = key >= kKeys;
    const int magnitude = negative ? key - kKeys : key;
    const auto first = static_cast<unsigned>(kBelowKeys + magnitude);
    if (negative) return __uint_as_float(0x80000000u | (((first + 1) << kKeyShift) - 1));
    return magnitude == 0 ? 0.0f : __uint_as_float(first << kKeyShift);
  }
  __device__ int code_at_most(float y) const {
    int code = 0;
    for (int stride = kCodes / 2; stride > 0; stride /= 2)
      if (step[code + stride - 1] <= y) code += stride;
    return code;
  }
};

// A lane's neighbours, from `first` on; `count` of them are there.
template <class G, class C>
struct Neighbours {
  float grad[kPerLane], param[kPerLane];
  std::uint8_t code1[kPerLane], code2[kPerLane];
  std::int64_t first;
  int count;
  bool packed;

  __device__ __forceinline__ Neighbours(const CudaAdamW& a, std::int64_t from, bool aligned)
      : first(from) {
    const std::int64_t left = a.size - first;
    count = left < 0 ? 0 : left < kPerLane ? static_cast<int>(left) : kPerLane;
    packed = aligned && count == kPerLane;
    if (packed) {
      load<G, kPerLane>(a.grad, first, grad);
      load<Bf16, kPerLane>(a.param, first, param);
      load_bytes(a.exp_avg, code1);
      load_bytes(a.exp_avg_sq, code2);
      return;
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const bool there = i < count;
      grad[i] = there ? to_float(static_cast<const G*>(a.grad)[first + i]) : 0.0f;
      param[i] = there ? to_float(static_cast<const Bf16*>(a.param)[first + i]) : 0.0f;
      code1[i] = there ? static_cast<const std::uint8_t*>(a.exp_avg)[first + i] : 0;
      code2[i] = there ? static_cast<const std::uint8_t*>(a.exp_avg_sq)[first + i] : 0;
    }
  }
  __device__ __forceinline__ void write_params(const CudaAdamW& a) const {
    if (packed) {
      store<Bf16, kPerLane>(a.param, first, param);
      if (a.copy) store<C, kPerLane>(a.copy, first, param);
      return;
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (i >= count) break;
      static_cast<Bf16*>(a.param)[first + i] = from_float<Bf16>(param[i]);
      if (a.copy) static_cast<C*>(a.copy)[first + i] = from_float<C>(param[i]);
    }
  }
  __device__ __forceinline__ void write_codes(const CudaAdamW& a) const {
    write_bytes(a.exp_avg, code1);
    write_bytes(a.exp_avg_sq, code2);
  }

 private:
  using Bytes = Pack<std::uint8_t, kPerLane>;

  __device__ __forceinline__ void load_bytes(const void* base, std::uint8_t (&to)[kPerLane]) const {
    const Bytes pack = pack_at<std::uint8_t, kPerLane>(base, first);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) to[i] = pack.value[i];
  }
  __device__ __forceinline__ void write_bytes(void* base,
                                              const std::uint8_t (&from)[kPerLane]) const {
    if (packed) {
      Bytes pack;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) pack.value[i] = from[i];
      pack_at<std::uint8_t, kPerLane>(base, first) = pack;
      return;
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (i < count) static_cast<std::uint8_t*>(base)[first + i] = from[i];
  }
};

__device__ __forceinline__ float scale_of(unsigned int largest_bits) {
  const float magnitude = __uint_as_float(largest_bits);
  return magnitude < kLeastScale ? kLeastScale : magnitude;
}

template <class G, class C>
__global__ void __launch_bounds__(kThreads) adamw_8bit_kernel(const CudaAdamW a, bool aligned) {
  if (*a.apply == 0) return;
  __shared__ Codes first, second;
  first.open(kFirstBits);
  second.open(kSecondBits);
  const AdamWFactors f = adamw_factors(a);
  const std::uint64_t stream = a.stream + static_cast<std::uint64_t>(*a.applied_steps + 1);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t blocks = (a.size + kBlock - 1) / kBlock;
  for (std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp; block < blocks;
       block += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    Neighbours<G, C> own(a, block * kBlock + lane * kPerLane, aligned);
    const float old1 = a.exp_avg_scales[block], old2 = a.exp_avg_sq_scales[block];
    float m1[kPerLane], m2[kPerLane];
    unsigned int largest1 = 0, largest2 = 0;
    PhiloxDraw draw{};
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      m1[i] = first.value[own.code1[i]] * old1;
      m2[i] = second.value[own.code2[i]] * old2;
      adamw_update(a, f, own.grad[i], m1[i], m2[i], own.param[i]);
      const std::uint64_t e = a.first_element + static_cast<std::uint64_t>(own.first) + i;
      const bool odd = e % 2 != 0;
      if (i == 0 || !odd) draw = philox(a.seed, stream, e / 2);
      own.param[i] = rounded(own.param[i], (odd ? draw.word[2] : draw.word[0]) & 0xffffu);
      if (i >= own.count) continue;
      largest1 = larger_magnitude(largest1, m1[i]);
      largest2 = larger_magnitude(largest2, m2[i]);
    }
    own.write_params(a);
    const float scale1 = scale_of(warp_max(largest1)), scale2 = scale_of(warp_max(largest2));
    if (lane == 0) {
      a.exp_avg_scales[block] = scale1;
      a.exp_avg_sq_scales[block] = scale2;
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int code2 = second.nearest(__fdiv_rn(m2[i], scale2));
      own.code1[i] = static_cast<std::uint8_t>(first.nearest(__fdiv_rn(m1[i], scale1)));
      own.code2[i] = static_cast<std::uint8_t>(code2 == 0 && m2[i] > 0 ? 1 : code2);
    }
    own.write_codes(a);
  }
}

}  // namespace

int launch_adamw_8bit(const CudaAdamW& a, void* stream) {
  const std::int64_t needed = (a.size + kBlock * kWarps - 1) / (kBlock * kWarps);
  const auto grid = static_cast<unsigned>(needed < kMostBlocks ? needed : kMostBlocks);
  const bool packed = aligned(a.param) && aligned(a.exp_avg) && aligned(a.exp_avg_sq) &&
                      aligned(a.grad) && aligned(a.copy);
  return by_element(a.grad_element, [&](auto grad) {
    return by_element(a.copy_element, [&](auto copy) {
      adamw_8bit_kernel<decltype(grad), decltype(copy)>
          <<<grid, kThreads, 0, as_stream(stream)>>>(a, packed);
      return launch_status();
    });
  });
}

}  // namespace wmtp::kernels
