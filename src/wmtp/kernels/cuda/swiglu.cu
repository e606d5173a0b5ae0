#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kSwigluThreads = 256;

// One pack of gate and of up per thread; the index counts packs of the whole matrix.
template <class T, int N, bool kBackward>
__global__ void __launch_bounds__(kSwigluThreads) swiglu_kernel(const CudaSwiglu a) {
  const std::uint32_t packs_per_row = static_cast<std::uint32_t>(a.columns / N);
  const std::uint64_t index = static_cast<std::uint64_t>(blockIdx.x) * kSwigluThreads + threadIdx.x;
  const std::int64_t row = static_cast<std::int64_t>(index / packs_per_row);
  if (row >= a.rows) return;
  const std::int64_t column = static_cast<std::int64_t>(index % packs_per_row) * N;
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
}

template <class T, int N>
int launch(const CudaSwiglu& a, cudaStream_t stream) {
  const std::int64_t packs = a.rows * (a.columns / N);
  const auto blocks = static_cast<unsigned>((packs + kSwigluThreads - 1) / kSwigluThreads);
  if (a.dout)
    swiglu_kernel<T, N, true><<<blocks, kSwigluThreads, 0, stream>>>(a);
  else
    swiglu_kernel<T, N, false><<<blocks, kSwigluThreads, 0, stream>>>(a);
  return launch_status();
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
