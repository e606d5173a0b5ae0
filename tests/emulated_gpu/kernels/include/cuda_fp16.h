// fp16 as CUDA rounds it: to the nearest, ties to even; every NaN becomes 0x7fff.
#pragma once
#include <cstdint>

#include "emulated/intrinsics.h"
#include "emulated/words.h"

struct alignas(2) __half {
  std::uint16_t bits;
};

__host__ __device__ inline float __half2float(__half value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16, rest = value.bits & 0x7fffu;
  if (rest >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest < 0x0400u) {  // 2^-24 each, exact in fp32
    const float magnitude = static_cast<float>(rest) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return __uint_as_float(sign | ((rest << 13) + (112u << 23)));
}

__host__ __device__ inline __half __float2half_rn(float value) {
  const std::uint32_t bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return {0x7fff};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // >= 65520
  // Below the least normal number the sum with 0.5 has an ulp of 2^-24: the addition rounds.
  const std::uint32_t rounded =
      magnitude < 0x38800000u ? __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u
                              : (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  return {static_cast<std::uint16_t>(sign | rounded)};
}

__host__ __device__ inline __half __float2half(float value) {
  return __float2half_rn(value);
}
