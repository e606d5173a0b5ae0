// How AdamW's kernels load and store elements of the master: N at a time from a place they are
// aligned at.
#pragma once
#include <type_traits>

#include "wmtp/kernels/cuda/planes.cuh"

namespace wmtp::kernels {

// fp32 or bf16 in one tensor; a bf16 master has been rounded before it is stored.
template <class T>
struct MasterTensor {
  static constexpr bool kRounds = std::is_same_v<T, Bf16>;

  template <int N>
  __device__ static void load(const CudaAdamW& a, std::int64_t first, float (&to)[N]) {
    kernels::load<T, N>(a.param, first, to);
  }
  template <int N>
  __device__ static void store(const CudaAdamW& a, std::int64_t first, const float (&from)[N]) {
    kernels::store<T, N>(a.param, first, from);
  }
};

// fp32 in two planes (codes/planes.h).
struct MasterPlanes {
  static constexpr bool kRounds = false;

  template <int N>
  __device__ static void load(const CudaAdamW& a, std::int64_t first, float (&to)[N]) {
    load_planes<N>(a.param, a.param_lower, first, to);
  }
  template <int N>
  __device__ static void store(const CudaAdamW& a, std::int64_t first, const float (&from)[N]) {
    store_upper<N>(a.param, first, from);
    store_lower<N>(a.param_lower, first, from);
  }
};

}  // namespace wmtp::kernels
