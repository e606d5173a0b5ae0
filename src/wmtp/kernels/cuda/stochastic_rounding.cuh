// Rounding to bf16 with random numbers that belong to the element (kernels/adamw.h).
#pragma once
#include "wmtp/kernels/cuda/philox.cuh"

namespace wmtp::kernels {

// Exact in bf16: storing it afterwards rounds nothing.
__device__ __forceinline__ float rounded(float value, std::uint32_t random16) {
  if (!isfinite(value)) return value;
  return __uint_as_float((__float_as_uint(value) + random16) & 0xffff0000u);
}

}  // namespace wmtp::kernels
