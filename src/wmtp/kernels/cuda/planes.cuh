// N fp32 numbers to and from planes (codes/planes.h); N * 2 bytes is the alignment they need.
#pragma once
#include <type_traits>

#include "wmtp/kernels/codes/plane_bits.h"
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {

template <int N>
__device__ __forceinline__ void load_planes(const void* upper, const void* lower,
                                            std::int64_t index, float (&to)[N]) {
  const Pack<std::uint16_t, N> high = pack_at<std::uint16_t, N>(upper, index);
  const Pack<std::int16_t, N> low = pack_at<std::int16_t, N>(lower, index);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = __uint_as_float(joined_bits({high.value[i], low.value[i]}));
}

template <int N>
__device__ __forceinline__ void store_upper(void* base, std::int64_t index,
                                            const float (&from)[N]) {
  Pack<std::uint16_t, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.value[i] = split_bits(__float_as_uint(from[i])).upper;
  pack_at<std::uint16_t, N>(base, index) = pack;
}

template <int N>
__device__ __forceinline__ void store_lower(void* base, std::int64_t index,
                                            const float (&from)[N]) {
  Pack<std::int16_t, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.value[i] = split_bits(__float_as_uint(from[i])).lower;
  pack_at<std::int16_t, N>(base, index) = pack;
}

// Trained weights in the dtype they are computed with: in bf16 the upper plane.
template <class T, int N>
__device__ __forceinline__ void store_computed(void* base, std::int64_t index,
                                               const float (&from)[N]) {
  if constexpr (std::is_same_v<T, Bf16>)
    store_upper<N>(base, index, from);
  else
    store<T, N>(base, index, from);
}

}  // namespace wmtp::kernels
