// Blocks of a fixed number walk the range; their sums are added by one block in a fixed order.
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kGradNormThreads = 512;

template <class T, int N>
__global__ void __launch_bounds__(kGradNormThreads) squares_kernel(const CudaSquaredNorm a) {
  const std::int64_t num_packs = a.size / N;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kGradNormThreads;
  std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * kGradNormThreads + threadIdx.x;
  double sums[2] = {};
  const auto add = [&](const float(&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const double value = values[i];
      sums[i & 1] += value * value;
    }
  };
  for (; pack + 3 * step < num_packs; pack += 4 * step) {
    float values[4][N];
#pragma unroll
    for (int j = 0; j < 4; ++j) load<T, N>(a.values, (pack + j * step) * N, values[j]);
#pragma unroll
    for (int j = 0; j < 4; ++j) add(values[j]);
  }
  for (; pack < num_packs; pack += step) {
    float values[N];
    load<T, N>(a.values, pack * N, values);
    add(values);
  }
  const double total = block_sum(sums[0] + sums[1]);
  if (threadIdx.x == 0) a.partial[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kGradNormThreads)
    add_squares_kernel(const double* partial, int count, double* out) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += kGradNormThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out += sum;
}

}  // namespace

int launch_squared_norm(const CudaSquaredNorm& a, void* stream) {
  const int status = by_element(a.element, [&](auto type) {
    using T = decltype(type);
    constexpr int n = kPerPack<T>;
    if (a.size % n == 0 && aligned(a.values))
      squares_kernel<T, n><<<kMaxPartialBlocks, kGradNormThreads, 0, as_stream(stream)>>>(a);
    else
      squares_kernel<T, 1><<<kMaxPartialBlocks, kGradNormThreads, 0, as_stream(stream)>>>(a);
    return launch_status();
  });
  if (status != 0) return status;
  add_squares_kernel<<<1, kGradNormThreads, 0, as_stream(stream)>>>(a.partial, kMaxPartialBlocks,
                                                                    a.out);
  return launch_status();
}

}  // namespace wmtp::kernels
