// What the kernels of float8, and those that produce its operands, share: operands by packs,
// largest magnitudes, conversion, scales. Every operation rounds by itself, to the same number as
// on the CPU (cpu/float8.cpp): nothing may be contracted.
#pragma once
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {

// Elements [column, column + N) of a row of an operand: zeros behind `columns`. Returns how many
// there are.
template <class T, int N>
__device__ __forceinline__ int load_part(const T* row, std::int64_t column, std::int64_t columns,
                                         bool packed, float (&to)[N]) {
  const std::int64_t left = columns - column;
  if (packed && left >= N) {
    load<T, N>(row + column, 0, to);
    return N;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = i < left ? to_float(row[column + i]) : 0.0f;
  return left < 0 ? 0 : left < N ? static_cast<int>(left) : N;
}

// Magnitudes are compared by their bits: these order as the numbers do, with a NaN above all, and
// no order of threads changes their maximum.
__device__ __forceinline__ unsigned int larger_magnitude(unsigned int bits, float x) {
  return max(bits, __float_as_uint(x) & 0x7fffffffu);
}
// With those of what store<T, N> writes.
template <class T, int N>
__device__ __forceinline__ unsigned int larger_written(unsigned int bits, const float (&from)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) bits = larger_magnitude(bits, rounded<T>(from[i]));
  return bits;
}

__device__ __forceinline__ unsigned int warp_max(unsigned int bits) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, offset));
  return bits;
}

__device__ __forceinline__ void raise(float* amax, unsigned int bits) {
  atomicMax(reinterpret_cast<unsigned int*>(amax), bits);
}

// One number for all: a thread block raises it once. REQUIRES all threads of the block, and
// blockDim.x a multiple of 32.
__device__ __forceinline__ void raise_one(float* amax, unsigned int bits) {
  __shared__ unsigned int largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  bits = warp_max(bits);
  if (threadIdx.x % 32 == 0) atomicMax(&largest, bits);
  __syncthreads();
  if (threadIdx.x == 0) raise(amax, largest);
}

template <Float8Format kFormat>
__device__ __forceinline__ std::uint32_t float8_code(float x) {
  constexpr Float8Shape kShape = kFormat == Float8Format::e4m3 ? kE4m3Shape : kE5m2Shape;
  constexpr int kCut = 23 - kShape.mantissa_bits;
  constexpr std::uint32_t kBelow = 127 + kShape.least_exponent - 1;
  const std::uint32_t sign = __float_as_uint(x) >> 24 & 0x80u;
  const std::uint32_t magnitude = __float_as_uint(x) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fu;
  const float size = fminf(__uint_as_float(magnitude), kShape.largest);
  if (size < kShape.least_normal)
    return sign |
           (__float_as_uint(__fadd_rn(size, kShape.anchor)) - __float_as_uint(kShape.anchor));
  const std::uint32_t bits = __float_as_uint(size);
  const std::uint32_t rounded = bits + (1u << (kCut - 1)) - 1 + (bits >> kCut & 1u);
  return sign | ((rounded >> kCut) - (kBelow << kShape.mantissa_bits));
}

// Four neighbours, the first in the lowest byte. GPUs that have float8 products convert two numbers
// in one instruction, to the bits of float8_code, which takes dozens in integers.
template <Float8Format kFormat>
__device__ __forceinline__ std::uint32_t float8_word(float x0, float x1, float x2, float x3) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t low, high;
  if constexpr (kFormat == Float8Format::e4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x1), "f"(x0));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x3), "f"(x2));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x1), "f"(x0));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x3), "f"(x2));
  }
  return low | static_cast<std::uint32_t>(high) << 16;
#else
  return float8_code<kFormat>(x0) | float8_code<kFormat>(x1) << 8 | float8_code<kFormat>(x2) << 16 |
         float8_code<kFormat>(x3) << 24;
#endif
}

// Scales are normal numbers, 0 or NaN: the power of two at or below one has its exponent's bits.
template <Float8Format kFormat, bool kRowwise>
__device__ __forceinline__ float scale_of_amax(float amax) {
  constexpr double kLargest = (kFormat == Float8Format::e4m3 ? kE4m3Shape : kE5m2Shape).largest;
  double size = amax;
  if (size < kLeastFloat8Amax) size = kLeastFloat8Amax;  // written so that a NaN stays one
  const auto scale = static_cast<float>(kLargest / size);
  if (!kRowwise || !(scale > 0)) return scale;
  return __uint_as_float(__float_as_uint(scale) & 0x7f800000u);
}

}  // namespace wmtp::kernels
