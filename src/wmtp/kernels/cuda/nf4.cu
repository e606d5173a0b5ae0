// NF4 back into numbers (kernels/nf4.h): a thread block has a group of 256 scales, one a thread,
// and then their 16384 weights.
#include "wmtp/kernels/codes/dynamic_map_bits.h"
#include "wmtp/kernels/codes/nf4_bits.h"
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kGroup = 256, kBlock = 64;  // scales of a group, weights of a scale
constexpr int kAhead = 4;                 // packs whose bytes a thread has under way at once

// In global memory: constant memory serves lanes that ask for different entries one by one.
__device__ const DynamicMapBits kMapBits = kSignedMapBits;
__device__ const Nf4TableBits kTableBits = kNf4TableBits;

// The indices of N weights, which are stored as 16 bytes. A lane loads no more than that, so that
// the loads of a warp as well as its stores are whole lines: with 16 bytes of indices it would have
// four or eight stores, each apart from its neighbours'.
template <int N>
struct Indices;
template <>
struct Indices<8> {
  using Word = std::uint32_t;
};
template <>
struct Indices<4> {
  using Word = std::uint16_t;
};

// The weights of a group that there are, counted from the group's first: its beginning may lie
// before the stretch, its end behind.
struct Inside {
  std::int64_t first;  // the group's, counted from the stretch's first; below 0 there
  int begin, end;

  __device__ explicit Inside(const CudaNf4& a)
      : first((static_cast<std::int64_t>(blockIdx.x) * kGroup - a.skipped_blocks) * kBlock),
        begin(first < 0 ? static_cast<int>(-first) : 0),
        end(a.size - first < kGroup * kBlock ? static_cast<int>(a.size - first) : kGroup * kBlock) {
  }
};

// Lanes that read one bank of `table` read one entry: an entry has a bank of its own.
struct Shared {
  float table[16], scales[kGroup];

  __device__ void open(const CudaNf4& a, const Inside& inside) {
    const int t = static_cast<int>(threadIdx.x);
    if (t < 16) table[t] = __uint_as_float(kTableBits.value[t]);
    if (t * kBlock < inside.begin || t * kBlock >= inside.end) return;
    const std::int64_t block = inside.first / kBlock + t;
    if (!a.codes) {
      scales[t] = a.absmax[block];
      return;
    }
    const float value = __uint_as_float(kMapBits.value[a.codes[block]]);
    scales[t] = __fadd_rn(__fmul_rn(value, a.group_max[blockIdx.x]), a.offset);
  }
  __device__ float weight(int at, unsigned index) const {
    return __fmul_rn(table[index], scales[at / kBlock]);
  }
};

// The whole packs, counted as bytes and weights are; returns where they end. Packs are indexed as
// such: nvcc splits the stores where it has to add up elements.
template <class T>
__device__ __forceinline__ int expand_packs(const CudaNf4& a, const Inside& inside,
                                            const Shared& shared) {
  constexpr int N = kPerPack<T>;
  using Word = typename Indices<N>::Word;
  const auto* indices = reinterpret_cast<const Word*>(a.packed);
  auto* out = static_cast<Pack<T, N>*>(a.out);
  const std::int64_t first = inside.first / N;
  const int begin = inside.begin / N, end = inside.end / N;
  for (int at = static_cast<int>(threadIdx.x); at < end; at += kAhead * kGroup) {
    Word words[kAhead] = {};
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (const int p = at + k * kGroup; p >= begin && p < end) words[k] = indices[first + p];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int p = at + k * kGroup;
      if (p < begin || p >= end) continue;
      Pack<T, N> pack;
#pragma unroll
      for (int e = 0; e < N; ++e)  // a byte's high half first
        pack.value[e] = from_float<T>(shared.weight(p * N, words[k] >> (4 * e ^ 4) & 15));
      out[first + p] = pack;
    }
  }
  return end * N;
}

template <class T>
__global__ void __launch_bounds__(kGroup) nf4_kernel(const CudaNf4 a, bool in_packs) {
  __shared__ Shared shared;
  const Inside inside(a);
  shared.open(a, inside);
  __syncthreads();
  const int done = in_packs ? expand_packs<T>(a, inside, shared) : inside.begin;
  for (int at = done + static_cast<int>(threadIdx.x); at < inside.end; at += kGroup) {
    const std::int64_t i = inside.first + at;
    const unsigned byte = a.packed[i >> 1];
    static_cast<T*>(a.out)[i] = from_float<T>(shared.weight(at, i & 1 ? byte & 15 : byte >> 4));
  }
}

}  // namespace

int launch_nf4_dequantize(const CudaNf4& a, void* stream) {
  const std::int64_t blocks = a.skipped_blocks + (a.size + kBlock - 1) / kBlock;
  const auto groups = static_cast<unsigned>((blocks + kGroup - 1) / kGroup);
  const bool in_packs = aligned(a.out) && reinterpret_cast<std::uintptr_t>(a.packed) % 4 == 0;
  return by_element(a.element, [&](auto element) {
    nf4_kernel<decltype(element)><<<groups, kGroup, 0, as_stream(stream)>>>(a, in_packs);
    return launch_status();
  });
}

}  // namespace wmtp::kernels
