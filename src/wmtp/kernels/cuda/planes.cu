#include "wmtp/kernels/cuda/planes.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kThreads = 256, kPerThread = 4;

template <int N>
__global__ void __launch_bounds__(kThreads) split_planes_kernel(const CudaPlanes a) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (first >= a.size) return;
  float whole[N];
  load<float, N>(a.whole, first, whole);
  store_upper<N>(a.upper, first, whole);
  if (a.lower) store_lower<N>(a.lower, first, whole);
}

template <int N>
__global__ void __launch_bounds__(kThreads) join_planes_kernel(const CudaPlanes a) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (first >= a.size) return;
  float whole[N];
  load_planes<N>(a.upper, a.lower, first, whole);
  store<float, N>(a.whole, first, whole);
}

bool in_packs(const CudaPlanes& a) {
  return a.size % kPerThread == 0 && aligned(a.whole) && aligned(a.upper) && aligned(a.lower);
}

unsigned num_blocks(const CudaPlanes& a, int per_thread) {
  const std::int64_t per_block = std::int64_t{kThreads} * per_thread;
  return static_cast<unsigned>((a.size + per_block - 1) / per_block);
}

}  // namespace

int launch_split_planes(const CudaPlanes& a, void* stream) {
  if (in_packs(a))
    split_planes_kernel<kPerThread>
        <<<num_blocks(a, kPerThread), kThreads, 0, as_stream(stream)>>>(a);
  else
    split_planes_kernel<1><<<num_blocks(a, 1), kThreads, 0, as_stream(stream)>>>(a);
  return launch_status();
}

int launch_join_planes(const CudaPlanes& a, void* stream) {
  if (in_packs(a))
    join_planes_kernel<kPerThread>
        <<<num_blocks(a, kPerThread), kThreads, 0, as_stream(stream)>>>(a);
  else
    join_planes_kernel<1><<<num_blocks(a, 1), kThreads, 0, as_stream(stream)>>>(a);
  return launch_status();
}

}  // namespace wmtp::kernels
