// One block per row forward; backward keeps its blocks on the device and walks the rows, so that
// the weight gradient stays in registers until the end. Rows too wide for registers are read twice.
#include "wmtp/kernels/cuda/common.cuh"
#include "wmtp/kernels/cuda/float8.cuh"

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
  unsigned int largest = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int pack = threadIdx.x + p * blockDim.x;
    if (pack >= num_packs) continue;
    float weight[N];
    load<T, N>(a.weight, pack * N, weight);
#pragma unroll
    for (int i = 0; i < N; ++i) x[p][i] = rounded<T>(x[p][i] * rstd) * weight[i];
    store<T, N>(a.out, row * a.out_stride + pack * N, x[p]);
    if (a.amax) largest = larger_written<T>(largest, x[p]);
  }
  if (a.amax) raise_one(a.amax, largest);
}

// kMaxPartialBlocks are four for each multiprocessor of an H100: where registers hold only three of
// them at once, the last quarter of the rows comes alone. Rows are counted in 32 bits for the same
// reason, and are no more than a grid has blocks.
template <class T, int N, int kPacks, bool kTrained>
__global__ void __launch_bounds__(kPacks > 2 ? 512 : 256, kPacks == 2 ? 4 : 1)
    rms_norm_backward_kernel(const CudaRmsNormBackward a) {
  const int num_packs = static_cast<int>(a.columns) / N;
  const auto rows = static_cast<unsigned>(a.rows);
  float dweight[kPacks][N] = {};
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
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
      store_floats(a.partial + blockIdx.x * a.columns + pack * N, dweight[p]);
    }
  }
}

constexpr int kWideRowThreads = 512;

// Any width, any alignment.
template <class T>
__global__ void __launch_bounds__(kWideRowThreads) rms_norm_wide_kernel(const CudaRmsNorm a) {
  const std::int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
  const T* delta = static_cast<const T*>(a.delta) + row * a.delta_stride;
  const T* weight = static_cast<const T*>(a.weight);
  T* sum = static_cast<T*>(a.sum) + row * a.sum_stride;
  T* out = static_cast<T*>(a.out) + row * a.out_stride;
  float squares = 0;
  for (std::int64_t c = threadIdx.x; c < a.columns; c += kWideRowThreads) {
    float value = to_float(x[c]);
    if (a.delta) {
      value = rounded<T>(value + to_float(delta[c]));
      sum[c] = from_float<T>(value);
    }
    squares += value * value;
  }
  const float rstd = rsqrtf(block_sum(squares) / static_cast<float>(a.columns) + a.eps);
  if (threadIdx.x == 0) a.rstd[row] = rstd;
  // A thread reads back only what it wrote; out may be x or delta.
  const T* summed = a.delta ? sum : x;
  unsigned int largest = 0;
  for (std::int64_t c = threadIdx.x; c < a.columns; c += kWideRowThreads) {
    out[c] = from_float<T>(rounded<T>(to_float(summed[c]) * rstd) * to_float(weight[c]));
    if (a.amax) largest = larger_magnitude(largest, to_float(out[c]));
  }
  if (a.amax) raise_one(a.amax, largest);
}

// A thread keeps its columns of the weight gradient in the block's row of partial.
template <class T>
__global__ void __launch_bounds__(kWideRowThreads)
    rms_norm_backward_wide_kernel(const CudaRmsNormBackward a) {
  const T* weight = static_cast<const T*>(a.weight);
  float* partial = a.dweight ? a.partial + blockIdx.x * a.columns : nullptr;
  if (partial)
    for (std::int64_t c = threadIdx.x; c < a.columns; c += kWideRowThreads) partial[c] = 0;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const float rstd = a.rstd[row];
    const T* dout = static_cast<const T*>(a.dout) + row * a.dout_stride;
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    T* dx = static_cast<T*>(a.dx) + row * a.dx_stride;
    float dot = 0;
    for (std::int64_t c = threadIdx.x; c < a.columns; c += kWideRowThreads) {
      const float product = to_float(dout[c]) * to_float(x[c]) * rstd;
      if (partial) partial[c] += product;
      dot += product * to_float(weight[c]);
    }
    const float mean = block_sum(dot) / static_cast<float>(a.columns);
    for (std::int64_t c = threadIdx.x; c < a.columns; c += kWideRowThreads) {
      const float g = to_float(dout[c]) * to_float(weight[c]);
      const float step = rstd * (g - to_float(x[c]) * rstd * mean);
      dx[c] = from_float<T>(to_float(dx[c]) + step);
    }
  }
}

// How many packs of a row a thread holds.
template <int kPacks>
struct Packs {
  static constexpr int value = kPacks;
};

constexpr std::int64_t kMostPacks = 2048;

// REQUIRES num_packs <= kMostPacks.
template <class F>
int by_row_width(std::int64_t num_packs, const F& call) {
  const auto threads = [&](int packs) {
    return static_cast<int>(((num_packs + packs - 1) / packs + 31) / 32 * 32);
  };
  if (num_packs <= 256) return call(Packs<1>{}, threads(1));
  if (num_packs <= 512) return call(Packs<2>{}, threads(2));
  return call(Packs<4>{}, threads(4));
}

bool whole_packs(const CudaRmsNorm& a, int n) {
  return a.columns % n == 0 && aligned(a.x, a.x_stride, n) && aligned(a.weight) &&
         aligned(a.out, a.out_stride, n) &&
         (!a.delta || (aligned(a.delta, a.delta_stride, n) && aligned(a.sum, a.sum_stride, n)));
}

bool whole_packs(const CudaRmsNormBackward& a, int n) {
  return a.columns % n == 0 && aligned(a.dout, a.dout_stride, n) && aligned(a.x, a.x_stride, n) &&
         aligned(a.weight) && aligned(a.dx, a.dx_stride, n) && aligned(a.partial);
}

template <class T, int N>
int forward(const CudaRmsNorm& a, cudaStream_t stream) {
  if (a.columns / N > kMostPacks) {
    rms_norm_wide_kernel<T><<<static_cast<unsigned>(a.rows), kWideRowThreads, 0, stream>>>(a);
    return launch_status();
  }
  return by_row_width(a.columns / N, [&](auto packs, int threads) {
    rms_norm_kernel<T, N, decltype(packs)::value>
        <<<static_cast<unsigned>(a.rows), threads, 0, stream>>>(a);
    return launch_status();
  });
}

template <class T, int N>
int backward(const CudaRmsNormBackward& a, cudaStream_t stream) {
  if (a.columns / N > kMostPacks) {
    rms_norm_backward_wide_kernel<T><<<a.num_blocks, kWideRowThreads, 0, stream>>>(a);
    return launch_status();
  }
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
