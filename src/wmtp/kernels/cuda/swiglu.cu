#include "wmtp/kernels/cuda/common.cuh"
#include "wmtp/kernels/cuda/float8.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kSwigluThreads = 256;

// One pack of gate and of up; returns the largest magnitude that it writes. Where there is an amax
// is known when this is compiled: asked at run time it would take registers where there is none.
template <class T, int N, bool kBackward, bool kAmax>
__device__ __forceinline__ unsigned int swiglu_pack(const CudaSwiglu& a, std::int64_t row,
                                                    std::int64_t column) {
  const std::int64_t at = row * a.gate_up_stride + column;
  float gate[N], up[N], dout[N], out[N];
  load<T, N>(a.gate_up, at, gate);
  load<T, N>(a.gate_up, at + a.columns, up);
  if (kBackward) load<T, N>(a.dout, row * a.dout_stride + column, dout);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float sigmoid = 1.0f / (1.0f + __expf(-gate[i]));
    const float silu = gate[i] * sigmoid;
    out[i] = silu * up[i];
    if (kBackward) {
      const float dgate = dout[i] * up[i] * sigmoid * (1.0f + gate[i] * (1.0f - sigmoid));
      up[i] = dout[i] * silu;
      gate[i] = dgate;
    }
  }
  if (a.out) store<T, N>(a.out, row * a.out_stride + column, out);
  if (kBackward) {
    store<T, N>(a.gate_up, at, gate);
    store<T, N>(a.gate_up, at + a.columns, up);
  }
  if (!kAmax) return 0;
  if (!kBackward) return larger_written<T>(0, out);
  return larger_written<T>(larger_written<T>(0, gate), up);
}

// One pack per thread; the index counts packs of the whole matrix.
template <class T, int N, bool kBackward, bool kAmax>
__global__ void __launch_bounds__(kSwigluThreads) swiglu_kernel(const CudaSwiglu a) {
  const std::uint32_t packs_per_row = static_cast<std::uint32_t>(a.columns / N);
  const std::uint64_t index = static_cast<std::uint64_t>(blockIdx.x) * kSwigluThreads + threadIdx.x;
  const std::int64_t row = static_cast<std::int64_t>(index / packs_per_row);
  const std::int64_t column = static_cast<std::int64_t>(index % packs_per_row) * N;
  const unsigned int largest =
      row < a.rows ? swiglu_pack<T, N, kBackward, kAmax>(a, row, column) : 0;
  if (kAmax) raise_one(a.amax, largest);
}

template <class T, int N, bool kBackward>
int launch(const CudaSwiglu& a, cudaStream_t stream) {
  const std::int64_t packs = a.rows * (a.columns / N);
  const auto blocks = static_cast<unsigned>((packs + kSwigluThreads - 1) / kSwigluThreads);
  if (a.amax)
    swiglu_kernel<T, N, kBackward, true><<<blocks, kSwigluThreads, 0, stream>>>(a);
  else
    swiglu_kernel<T, N, kBackward, false><<<blocks, kSwigluThreads, 0, stream>>>(a);
  return launch_status();
}

template <class T, int N>
int launch(const CudaSwiglu& a, cudaStream_t stream) {
  return a.dout ? launch<T, N, true>(a, stream) : launch<T, N, false>(a, stream);
}

}  // namespace

int launch_swiglu(const CudaSwiglu& a, void* stream) {
  return by_element(a.element, [&](auto type) {
    using T = decltype(type);
    constexpr int n = kPerPack<T>;
    const bool whole = a.columns % n == 0 && aligned(a.gate_up, a.gate_up_stride, n) &&
                       aligned(a.dout, a.dout_stride, n) && aligned(a.out, a.out_stride, n);
    return whole ? launch<T, n>(a, as_stream(stream)) : launch<T, 1>(a, as_stream(stream));
  });
}

}  // namespace wmtp::kernels
