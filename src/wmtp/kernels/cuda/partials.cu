#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

// 32 columns x 32 lanes; lane y sums the rows y, y + 32, ...
template <class T>
__global__ void __launch_bounds__(1024)
    add_partials_kernel(const float* partial, int num_blocks, std::int64_t columns,
                        std::int64_t stride, T* sum) {
  __shared__ float lanes[32][33];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  float total = 0;
  if (column < columns)
    for (int b = threadIdx.y; b < num_blocks; b += 32) total += partial[b * stride + column];
  lanes[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  total = 0;
  for (int y = 0; y < 32; ++y) total += lanes[y][threadIdx.x];
  sum[column] = from_float<T>(to_float(sum[column]) + total);
}

}  // namespace

int add_partials(const float* partial, int num_blocks, std::int64_t columns, std::int64_t stride,
                 void* sum, Element element, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>((columns + 31) / 32);
  return by_element(element, [&](auto type) {
    using T = decltype(type);
    add_partials_kernel<T><<<grid, dim3(32, 32), 0, stream>>>(partial, num_blocks, columns, stride,
                                                              static_cast<T*>(sum));
    return launch_status();
  });
}

}  // namespace wmtp::kernels
