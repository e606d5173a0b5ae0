#include "emulated_gpu/kernels/tiny_kernels.h"

#include <cuda_runtime.h>

namespace wmtp::emulated::testing {
namespace {

constexpr unsigned kAll = 0xffffffffu;

dim3 extent(const Extent& e) {
  return dim3(e.x, e.y, e.z);
}

__global__ void nothing() {}
__global__ void nothing_with_limit() {}

__global__ void turn_around_kernel(int* out) {
  extern __shared__ int turned[];
  turned[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = turned[blockDim.x - 1 - threadIdx.x];
}

__global__ void take_from_left_kernel(float* out) {
  __shared__ float places[1024];
  places[threadIdx.x] = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = threadIdx.x == 0 ? -1.0f : places[threadIdx.x - 1];
}

__global__ void sums_of_the_living_kernel(int* out) {
  __shared__ int places[1024];
  if (threadIdx.x % 2 == 1) return;
  places[threadIdx.x] = 1;
  __syncthreads();
  int sum = 0;
  for (unsigned i = 0; i < blockDim.x; i += 2) sum += places[i];
  out[threadIdx.x] = sum;
}

__global__ void shuffle_kernel(Shuffle kind, int argument, int width, double* out) {
  const double mine = threadIdx.x;
  double got = 0;
  switch (kind) {
    case Shuffle::from:
      got = __shfl_sync(kAll, mine, argument, width);
      break;
    case Shuffle::up:
      got = __shfl_up_sync(kAll, mine, argument, width);
      break;
    case Shuffle::down:
      got = __shfl_down_sync(kAll, mine, argument, width);
      break;
    case Shuffle::exclusive_or:
      got = __shfl_xor_sync(kAll, mine, argument, width);
      break;
  }
  out[threadIdx.x] = got;
}

__global__ void vote_kernel(unsigned predicates, Votes* out) {
  const int mine = predicates >> threadIdx.x & 1u;
  Votes votes;
  votes.ballot = __ballot_sync(kAll, mine);
  votes.any = __any_sync(kAll, mine);
  votes.all = __all_sync(kAll, mine);
  out[threadIdx.x] = votes;
}

__global__ void shuffle_in_halves_kernel(int* out) {
  const bool low = threadIdx.x < 16;
  int value = static_cast<int>(threadIdx.x);
  if (low) {
    for (int i = 0; i < 3; ++i) value = __shfl_xor_sync(0x0000ffffu, value, 1);
  } else {
    value = __shfl_xor_sync(0xffff0000u, value, 2);
  }
  __syncwarp();
  out[threadIdx.x] = __shfl_sync(kAll, value, static_cast<int>(threadIdx.x) ^ 16);
}

__global__ void count_unwritten_kernel(int* out) {
  extern __shared__ double dynamic[];
  __shared__ float first[8][2], second;
  int count = 0;
  for (int i = 0; i < 4; ++i) count += isnan(dynamic[i]);
  for (int i = 0; i < 8; ++i) count += isnan(first[i][0]) + isnan(first[i][1]);
  count += isnan(second);
  out[blockIdx.x] = count;
  for (int i = 0; i < 4; ++i) dynamic[i] = 1;
  for (int i = 0; i < 8; ++i) first[i][0] = first[i][1] = second = 1;
}

__global__ void place_kernel(int* out) {
  const unsigned in_block = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned place = block * blockDim.x * blockDim.y * blockDim.z + in_block;
  out[place] = static_cast<int>(place);
}

__global__ void atomics_kernel(std::int64_t threads, int* sum, unsigned* largest,
                               unsigned long long* long_sum, float* float_sum, double* double_sum) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  atomicAdd(sum, 1);
  atomicMax(largest, static_cast<unsigned>(i * 7919 % 1000));
  atomicAdd(long_sum, 1ull << 33);
  atomicAdd(float_sum, 0.5f);
  atomicAdd(double_sum, 0.25);
}

__device__ double sum_of_warp(double value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(kAll, value, offset);
  return value;
}

__global__ void __launch_bounds__(1024) many_block_sums_kernel(double* out, int rounds) {
  __shared__ double warps[32];
  double value = 0;
  for (int i = 0; i < rounds; ++i) {
    const double of_warp = sum_of_warp(value / 1024 + threadIdx.x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = of_warp;
    __syncthreads();
    value = sum_of_warp(warps[threadIdx.x % 32]);
  }
  if (threadIdx.x == 0) out[blockIdx.x] = value;
}

template <class T, int N>
__global__ void __launch_bounds__(N > 2 ? 64 : 32, 2) add_kernel(T* out, T value, T other) {
  atomicAdd(out, value + other * N);
}

}  // namespace

int launch_nothing(Extent grid, Extent block, std::size_t shared_bytes) {
  nothing<<<extent(grid), extent(block), shared_bytes>>>();
  return cudaPeekAtLastError() ? cudaGetLastError() : cudaSuccess;
}

int launch_nothing_with_limit(std::size_t shared_bytes, int limit) {
  const cudaError_t set =
      cudaFuncSetAttribute(nothing_with_limit, cudaFuncAttributeMaxDynamicSharedMemorySize, limit);
  if (set != cudaSuccess) return cudaGetLastError();
  nothing_with_limit<<<1, 1, shared_bytes>>>();
  return cudaGetLastError();
}

void turn_around(int* out, int threads) {
  turn_around_kernel<<<1, threads, threads * sizeof(int)>>>(out);
}
void take_from_left(float* out, int threads) {
  take_from_left_kernel<<<1, threads>>>(out);
}
void sums_of_the_living(int* out, int threads) {
  sums_of_the_living_kernel<<<1, threads>>>(out);
}
void shuffle(Shuffle kind, int argument, int width, double* out) {
  shuffle_kernel<<<1, 32>>>(kind, argument, width, out);
}
void vote(unsigned predicates, Votes* out) {
  vote_kernel<<<1, 32>>>(predicates, out);
}
void shuffle_in_halves(int* out) {
  shuffle_in_halves_kernel<<<1, 32>>>(out);
}
void count_unwritten(int* out, int blocks) {
  count_unwritten_kernel<<<blocks, 1, 4 * sizeof(double)>>>(out);
}
void place_of(int* out, Extent grid, Extent block) {
  place_kernel<<<extent(grid), extent(block)>>>(out);
}
void atomics(std::int64_t threads, int* sum, unsigned* largest, unsigned long long* long_sum,
             float* float_sum, double* double_sum) {
  atomics_kernel<<<static_cast<unsigned>((threads + 63) / 64), 64>>>(
      threads, sum, largest, long_sum, float_sum, double_sum);
}
void many_block_sums(double* out, int blocks, int rounds) {
  many_block_sums_kernel<<<blocks, 1024>>>(out, rounds);
}

void configured_at_length(int* out) {
  cudaStream_t stream = nullptr;
  const auto kernel = add_kernel<int, (2 > 1 ? 1 : 0)>;
  kernel<<<1, 32>>>(out, 1, 0);
  add_kernel<int, 3>
      <<<dim3(1, 1), dim3(8, 4),
         // a comment with <<< in it
         static_cast<std::size_t>(sizeof(int) * (1 + 1)), stream>>>(out, 1, max(1, 2));
  testing::add_kernel<decltype(1 + 1), sizeof(char)><<<(1 > 2 ? 2 : 1), 2>>>(out, 0, 1);
  for (const bool twice : {false, true})
    if (twice)
      add_kernel<int, 1><<<2, 1, 0, stream>>>(out, 100, 0);
    else
      add_kernel<int, 2><<<1, 1>>>(out, 0, 1000);
}

}  // namespace wmtp::emulated::testing
