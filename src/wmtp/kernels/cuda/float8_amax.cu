// The largest magnitudes of an operand (kernels/float8.h).
#include "wmtp/kernels/cuda/float8.cuh"

namespace wmtp::kernels {
namespace {

// A lane has a pack of columns, a warp every eighth row of a thread block's.
constexpr int kThreads = 256, kWarps = kThreads / 32, kRows = 64;

// One number for each column. Neighbouring lanes lie in neighbouring banks.
template <int N>
__device__ __forceinline__ void raise_columns(const CudaFloat8Amax& a,
                                              const unsigned int (&bits)[N]) {
  __shared__ unsigned int largest[N * 32];
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int i = static_cast<int>(threadIdx.x); i < N * 32; i += kThreads) largest[i] = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) atomicMax(&largest[i * 32 + lane], bits[i]);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < N * 32; i += kThreads) {
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 * N + i;
    if (column < a.columns) raise(a.of_columns + column, largest[i % N * 32 + i / N]);
  }
}

template <class T, bool kRowwise>
__global__ void __launch_bounds__(kThreads) amax_kernel(const CudaFloat8Amax a, bool packed) {
  constexpr int N = kPerPack<T>;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * 32 + lane) * N;
  unsigned int largest[N] = {};
#pragma unroll 4
  for (int line = warp; line < kRows; line += kWarps) {
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kRows + line;
    if (row >= a.rows) break;
    float x[N];
    load_part(static_cast<const T*>(a.x) + row * a.x_stride, column, a.columns, packed, x);
    unsigned int of_row = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      largest[i] = larger_magnitude(largest[i], x[i]);
      of_row = larger_magnitude(of_row, x[i]);
    }
    if constexpr (kRowwise) {
      of_row = warp_max(of_row);
      if (lane == 0) raise(a.of_rows + row, of_row);
    }
  }
  if constexpr (kRowwise) {
    raise_columns(a, largest);
  } else {
    unsigned int of_thread = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) of_thread = max(of_thread, largest[i]);
    raise_one(a.of_rows, of_thread);
  }
}

template <class T>
int launch(const CudaFloat8Amax& a, void* stream) {
  constexpr int kColumns = 32 * kPerPack<T>;
  const bool packed = aligned(a.x, a.x_stride, kPerPack<T>);
  const dim3 grid(static_cast<unsigned>((a.columns + kColumns - 1) / kColumns),
                  static_cast<unsigned>((a.rows + kRows - 1) / kRows));
  if (a.of_columns)
    amax_kernel<T, true><<<grid, kThreads, 0, as_stream(stream)>>>(a, packed);
  else
    amax_kernel<T, false><<<grid, kThreads, 0, as_stream(stream)>>>(a, packed);
  return launch_status();
}

}  // namespace

int launch_float8_amax(const CudaFloat8Amax& a, void* stream) {
  return by_element(a.element, [&](auto element) { return launch<decltype(element)>(a, stream); });
}

}  // namespace wmtp::kernels
