// bf16 as CUDA rounds it: to the nearest, ties to even; every NaN becomes 0x7fff.
#pragma once
#include <cstdint>

#include "emulated/intrinsics.h"
#include "emulated/words.h"

struct alignas(2) __nv_bfloat16 {
  std::uint16_t bits;
};

__host__ __device__ inline float __bfloat162float(__nv_bfloat16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
}

__host__ __device__ inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

__host__ __device__ inline __nv_bfloat16 __float2bfloat16(float value) {
  return __float2bfloat16_rn(value);
}
