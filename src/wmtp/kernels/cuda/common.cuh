// What the kernels share: 16-byte packs of elements, sums over a block in a fixed order, dispatch
// by element.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::kernels {

using Bf16 = __nv_bfloat16;
using Fp16 = __half;

__device__ __forceinline__ float to_float(float value) {
  return value;
}
__device__ __forceinline__ float to_float(Bf16 value) {
  return __bfloat162float(value);
}
__device__ __forceinline__ float to_float(Fp16 value) {
  return __half2float(value);
}

template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ Bf16 from_float<Bf16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ __forceinline__ Fp16 from_float<Fp16>(float value) {
  return __float2half_rn(value);
}

// The value as T holds it.
template <class T>
__device__ __forceinline__ float rounded(float value) {
  return to_float(from_float<T>(value));
}

// N elements of T moved as one access; N * sizeof(T) is the alignment it needs.
template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T value[N];
};

template <class T>
constexpr int kPerPack = 16 / static_cast<int>(sizeof(T));

// The pack of elements [index, index + N). REQUIRES an index that is a multiple of N, and a base
// aligned for packs. Packs are counted, not elements: behind a sum of elements nvcc no longer sees
// the alignment and splits the access into single ones.
template <class T, int N>
__device__ __forceinline__ Pack<T, N>& pack_at(void* base, std::int64_t index) {
  return static_cast<Pack<T, N>*>(base)[static_cast<std::uint64_t>(index) / N];
}
template <class T, int N>
__device__ __forceinline__ const Pack<T, N>& pack_at(const void* base, std::int64_t index) {
  return static_cast<const Pack<T, N>*>(base)[static_cast<std::uint64_t>(index) / N];
}

// An access has 16 bytes at most: more are several, in turn.
template <class T, int N>
constexpr int kAtOnce = N < kPerPack<T> ? N : kPerPack<T>;

template <class T, int N>
__device__ __forceinline__ void load(const void* base, std::int64_t index, float (&to)[N]) {
  constexpr int kPart = kAtOnce<T, N>;
#pragma unroll
  for (int part = 0; part < N; part += kPart) {
    const Pack<T, kPart> pack = pack_at<T, kPart>(base, index + part);
#pragma unroll
    for (int i = 0; i < kPart; ++i) to[part + i] = to_float(pack.value[i]);
  }
}

template <class T, int N>
__device__ __forceinline__ void store(void* base, std::int64_t index, const float (&from)[N]) {
  constexpr int kPart = kAtOnce<T, N>;
#pragma unroll
  for (int part = 0; part < N; part += kPart) {
    Pack<T, kPart> pack;
#pragma unroll
    for (int i = 0; i < kPart; ++i) pack.value[i] = from_float<T>(from[part + i]);
    pack_at<T, kPart>(base, index + part) = pack;
  }
}

template <int N>
__device__ __forceinline__ void load_floats(const float* from, float (&to)[N]) {
  load<float, N>(from, 0, to);
}
template <int N>
__device__ __forceinline__ void store_floats(float* to, const float (&from)[N]) {
  store<float, N>(to, 0, from);
}

template <int kWidth = 32, class V>
__device__ __forceinline__ V warp_sum(V value) {
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// The sum over the block, in all threads. REQUIRES blockDim.x a multiple of 32. May be called
// again.
template <class V>
__device__ __forceinline__ V block_sum(V value) {
  __shared__ V warps[32];
  value = warp_sum(value);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = value;
  __syncthreads();
  const int lane = threadIdx.x & 31;
  return warp_sum(lane < (blockDim.x + 31) / 32 ? warps[lane] : V(0));
}
__device__ __forceinline__ float block_max(float value) {
  __shared__ float warps[32];
  value = warp_max(value);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = value;
  __syncthreads();
  const int lane = threadIdx.x & 31;
  return warp_max(lane < (blockDim.x + 31) / 32 ? warps[lane] : -INFINITY);
}

inline bool aligned(const void* pointer) {
  return (reinterpret_cast<std::uintptr_t>(pointer) & 15u) == 0;
}
// Whether every row of a matrix begins on a 16-byte boundary.
inline bool aligned(const void* pointer, std::int64_t stride, int per_pack) {
  return aligned(pointer) && stride % per_pack == 0;
}

inline int launch_status() {
  return static_cast<int>(cudaPeekAtLastError() ? cudaGetLastError() : cudaSuccess);
}
inline cudaStream_t as_stream(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

template <class F>
int by_element(Element element, const F& call) {
  switch (element) {
    case Element::fp32:
      return call(float{});
    case Element::bf16:
      return call(Bf16{});
    case Element::fp16:
      return call(Fp16{});
  }
  return cudaErrorInvalidValue;
}

// sum[c] += partial[0][c] + partial[1][c] + ... in that order (in 32 interleaved lanes).
int add_partials(const float* partial, int num_blocks, std::int64_t columns, std::int64_t stride,
                 void* sum, Element element, cudaStream_t stream);

}  // namespace wmtp::kernels
