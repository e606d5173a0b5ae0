// Dropout by counter (kernels/dropout.h). A thread takes the elements of one counter value that lie
// in its row: four, fewer at the ends of a row whose start is no multiple of four.
#include "wmtp/kernels/cuda/common.cuh"
#include "wmtp/kernels/cuda/philox.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kDropoutThreads = 256;

__device__ __forceinline__ PhiloxDraw draw_of(const CudaDropout& a, std::int64_t row,
                                              std::uint64_t counter) {
  return philox(a.seed, static_cast<std::uint64_t>(a.streams[a.document[row]]), counter);
}

// REQUIRES columns a multiple of 4 and rows on 16-byte boundaries.
template <class T>
__global__ void __launch_bounds__(kDropoutThreads) dropout_whole_kernel(const CudaDropout a) {
  const std::int64_t fours = a.columns / 4;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kDropoutThreads + threadIdx.x;
  if (at >= a.rows * fours) return;
  const std::int64_t row = at / fours, column = at % fours * 4;
  const std::uint64_t first = static_cast<std::uint64_t>(a.position[row] * a.columns + column);
  const PhiloxDraw draw = draw_of(a, row, first / 4);
  float values[4];
  load<T, 4>(a.x, row * a.x_stride + column, values);
#pragma unroll
  for (int lane = 0; lane < 4; ++lane)
    values[lane] = draw.word[lane] >= a.first_kept ? values[lane] * a.scale : 0.0f;
  store<T, 4>(a.out, row * a.out_stride + column, values);
}

template <class T>
__global__ void __launch_bounds__(kDropoutThreads) dropout_kernel(const CudaDropout a) {
  const std::int64_t counters = a.columns / 4 + 2;  // as many as a row can touch
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kDropoutThreads + threadIdx.x;
  if (at >= a.rows * counters) return;
  const std::int64_t row = at / counters, first = a.position[row] * a.columns;
  const std::int64_t counter = first / 4 + at % counters;
  if (counter * 4 >= first + a.columns) return;
  const PhiloxDraw draw = draw_of(a, row, static_cast<std::uint64_t>(counter));
  const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
  T* out = static_cast<T*>(a.out) + row * a.out_stride;
#pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    const std::int64_t column = counter * 4 + lane - first;
    if (column < 0 || column >= a.columns) continue;
    const float value = draw.word[lane] >= a.first_kept ? to_float(x[column]) * a.scale : 0.0f;
    out[column] = from_float<T>(value);
  }
}

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kDropoutThreads - 1) / kDropoutThreads);
}

}  // namespace

int launch_dropout(const CudaDropout& a, void* stream) {
  return by_element(a.element, [&](auto element) {
    using T = decltype(element);
    const bool whole =
        a.columns % 4 == 0 && aligned(a.x, a.x_stride, 4) && aligned(a.out, a.out_stride, 4);
    if (whole)
      dropout_whole_kernel<T>
          <<<blocks_for(a.rows * (a.columns / 4)), kDropoutThreads, 0, as_stream(stream)>>>(a);
    else
      dropout_kernel<T>
          <<<blocks_for(a.rows * (a.columns / 4 + 2)), kDropoutThreads, 0, as_stream(stream)>>>(a);
    return launch_status();
  });
}

}  // namespace wmtp::kernels
