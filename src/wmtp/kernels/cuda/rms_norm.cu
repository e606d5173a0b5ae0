// One block per row forward; backward keeps its blocks on the device and walks the rows, so that
// the weight gradient stays in registers until the end.
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

template <class T, int N, int kPacks>
__global__ void __launch_bounds__(kPacks > 2 ? 512 : 256) rms_norm_kernel(const CudaRmsNorm a) {
  const std::int64_t row = blockIdx.x;
  const int num_packs = static_cast<int>(a.columns) / N;
  float x[kPacks][N];
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int pack = threadIdx.x + p * blockDim.x;
    if (pack >= num_packs) continue;
    load<T, N>(a.x, row * a.x_stride + pack * N, x[p]);
    if (a.delta) {
      float delta[N];
      load<T, N>(a.delta, row * a.delta_stride + pack * N, delta);
#pragma unroll
      for (int i = 0; i < N; ++i) x[p][i] = rounded<T>(x[p][i] + delta[i]);
      store<T, N>(a.sum, row * a.sum_stride + pack * N, x[p]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) squares += x[p][i] * x[p][i];
  }
  const float mean = block_sum(squares) / static_cast<float>(a.columns);
  const float rstd = rsqrtf(mean + a.eps);
  if (threadIdx.x == 0) a.rstd[row] = rstd;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int pack = threadIdx.x + p * blockDim.x;
    if (pack >= num_packs) continue;
    float weight[N];
    load<T, N>(a.weight, pack * N, weight);
#pragma unroll
    for (int i = 0; i < N; ++i) x[p][i] = rounded<T>(x[p][i] * rstd) * weight[i];
    store<T, N>(a.out, row * a.out_stride + pack * N, x[p]);
  }
}

template <class T, int N, int kPacks, bool kTrained>
__global__ void __launch_bounds__(kPacks > 2 ? 512 : 256)
    rms_norm_backward_kernel(const CudaRmsNormBackward a) {
  const int num_packs = static_cast<int>(a.columns) / N;
  float dweight[kPacks][N] = {};
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const float rstd = a.rstd[row];
    float g[kPacks][N], x[kPacks][N];
    float dot = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pack = threadIdx.x + p * blockDim.x;
      if (pack >= num_packs) continue;
      float weight[N];
      load<T, N>(a.dout, row * a.dout_stride + pack * N, g[p]);
      load<T, N>(a.x, row * a.x_stride + pack * N, x[p]);
      load<T, N>(a.weight, pack * N, weight);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        x[p][i] *= rstd;
        if (kTrained) dweight[p][i] += g[p][i] * x[p][i];
        g[p][i] *= weight[i];
        dot += g[p][i] * x[p][i];
      }
    }
    const float mean = block_sum(dot) / static_cast<float>(a.columns);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pack = threadIdx.x + p * blockDim.x;
      if (pack >= num_packs) continue;
      float dx[N];
      load<T, N>(a.dx, row * a.dx_stride + pack * N, dx);
#pragma unroll
      for (int i = 0; i < N; ++i) dx[i] += rstd * (g[p][i] - x[p][i] * mean);
      store<T, N>(a.dx, row * a.dx_stride + pack * N, dx);
    }
  }
  if constexpr (kTrained) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pack = threadIdx.x + p * blockDim.x;
      if (pack >= num_packs) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) a.partial[blockIdx.x * a.columns + pack * N + i] = dweight[p][i];
    }
  }
}

// How many packs of a row a thread holds.
template <int kPacks>
struct Packs {
  static constexpr int value = kPacks;
};

template <class F>
int by_row_width(std::int64_t num_packs, const F& call) {
  const auto threads = [&](int packs) {
    return static_cast<int>(((num_packs + packs - 1) / packs + 31) / 32 * 32);
  };
  if (num_packs <= 256) return call(Packs<1>{}, threads(1));
  if (num_packs <= 512) return call(Packs<2>{}, threads(2));
  if (num_packs <= 2048) return call(Packs<4>{}, threads(4));
  return static_cast<int>(cudaErrorInvalidConfiguration);
}

bool whole_packs(const CudaRmsNorm& a, int n) {
  return a.columns % n == 0 && aligned(a.x, a.x_stride, n) && aligned(a.weight) &&
         aligned(a.out, a.out_stride, n) &&
         (!a.delta || (aligned(a.delta, a.delta_stride, n) && aligned(a.sum, a.sum_stride, n)));
}

bool whole_packs(const CudaRmsNormBackward& a, int n) {
  return a.columns % n == 0 && aligned(a.dout, a.dout_stride, n) && aligned(a.x, a.x_stride, n) &&
         aligned(a.weight) && aligned(a.dx, a.dx_stride, n);
}

template <class T, int N>
int forward(const CudaRmsNorm& a, cudaStream_t stream) {
  return by_row_width(a.columns / N, [&](auto packs, int threads) {
    rms_norm_kernel<T, N, decltype(packs)::value>
        <<<static_cast<unsigned>(a.rows), threads, 0, stream>>>(a);
    return launch_status();
  });
}

template <class T, int N>
int backward(const CudaRmsNormBackward& a, cudaStream_t stream) {
  return by_row_width(a.columns / N, [&](auto packs, int threads) {
    constexpr int kPacks = decltype(packs)::value;
    if (a.dweight)
      rms_norm_backward_kernel<T, N, kPacks, true><<<a.num_blocks, threads, 0, stream>>>(a);
    else
      rms_norm_backward_kernel<T, N, kPacks, false><<<a.num_blocks, threads, 0, stream>>>(a);
    return launch_status();
  });
}

}  // namespace

int launch_rms_norm(const CudaRmsNorm& a, void* stream) {
  return by_element(a.element, [&](auto type) {
    using T = decltype(type);
    return whole_packs(a, kPerPack<T>) ? forward<T, kPerPack<T>>(a, as_stream(stream))
                                       : forward<T, 1>(a, as_stream(stream));
  });
}

int launch_rms_norm_backward(const CudaRmsNormBackward& a, void* stream) {
  const int status = by_element(a.element, [&](auto type) {
    using T = decltype(type);
    return whole_packs(a, kPerPack<T>) ? backward<T, kPerPack<T>>(a, as_stream(stream))
                                       : backward<T, 1>(a, as_stream(stream));
  });
  if (status != 0 || !a.dweight) return status;
  return add_partials(a.partial, a.num_blocks, a.columns, a.columns, a.dweight, a.dweight_element,
                      as_stream(stream));
}

}  // namespace wmtp::kernels
