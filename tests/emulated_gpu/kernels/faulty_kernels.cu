// Kernels that a GPU would answer with an error, silence or a wrong number.
#include <cuda_runtime.h>

#include "emulated_gpu/kernels/tiny_kernels.h"

namespace wmtp::emulated::testing {
namespace {

constexpr unsigned kAll = 0xffffffffu;

struct alignas(16) Four {
  float value[4];
};

__global__ void load_pack_kernel(const float* from, float* out) {
  const Four pack = *reinterpret_cast<const Four*>(from);
  for (int i = 0; i < 4; ++i) out[i] = pack.value[i];
}

__global__ void store_double_kernel(void* to) {
  *static_cast<double*>(to) = 1;
}

__global__ void wait_apart_kernel() {
  if (threadIdx.x < 16)
    __shfl_sync(kAll, 1, 0);
  else
    __syncthreads();
}

__global__ void wait_at_two_barriers_kernel() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void shuffle_with_the_returned_kernel() {
  if (threadIdx.x == 5) return;
  if (threadIdx.x > 5) __shfl_up_sync(kAll, 1, 1);
}

__global__ void return_from_a_shuffle_kernel() {
  if (threadIdx.x < 31) __shfl_down_sync(kAll, 1, 1);
}

__global__ void shuffle_beyond_the_block_kernel() {
  if (threadIdx.x >= 32) __shfl_xor_sync(kAll, 1, 1);
}

__global__ void shuffle_from_outside_the_mask_kernel() {
  if (threadIdx.x < 16) __shfl_xor_sync(0xffffu, 1, 16);
}

__global__ void mix_operations_kernel() {
  if (threadIdx.x < 16)
    __syncwarp();
  else
    __ballot_sync(kAll, 1);
}

__global__ void shuffle_without_naming_itself_kernel() {
  __shfl_sync(0xfffffffeu, 1, 1);
}

__global__ void shuffle_in_thirds_kernel() {
  __shfl_sync(kAll, 1, 0, 3);
}

__global__ void write_behind_shared_kernel(int bytes_behind) {
  extern __shared__ unsigned char bytes[];
  bytes[100 + bytes_behind] = 1;
}

__global__ void index_shared_kernel(int index) {
  __shared__ int values[32];
  values[index] = 1;
}

__global__ void __launch_bounds__(64) bounded_kernel() {}

__global__ void much_shared_kernel() {
  __shared__ int values[8192];
  values[threadIdx.x] = 1;
}

__device__ int sum_of_frames(int depth) {
  volatile int frame[1024];
  frame[depth % 1024] = depth;
  const int deeper = depth < 1000 ? sum_of_frames(depth + 1) : 0;
  return deeper + frame[depth % 1024];
}
__global__ void overflow_kernel(int* out) {
  *out = sum_of_frames(0);
}

}  // namespace

void load_pack(const float* from, float* out) {
  load_pack_kernel<<<1, 1>>>(from, out);
}
void store_double(void* to) {
  store_double_kernel<<<1, 1>>>(to);
}
void wait_apart() {
  wait_apart_kernel<<<1, 32>>>();
}
void wait_at_two_barriers() {
  wait_at_two_barriers_kernel<<<1, 64>>>();
}
void shuffle_with_the_returned() {
  shuffle_with_the_returned_kernel<<<1, 32>>>();
}
void return_from_a_shuffle() {
  return_from_a_shuffle_kernel<<<1, 32>>>();
}
void shuffle_beyond_the_block() {
  shuffle_beyond_the_block_kernel<<<1, 40>>>();
}
void shuffle_from_outside_the_mask() {
  shuffle_from_outside_the_mask_kernel<<<1, 32>>>();
}
void mix_operations() {
  mix_operations_kernel<<<1, 32>>>();
}
void shuffle_without_naming_itself() {
  shuffle_without_naming_itself_kernel<<<1, 32>>>();
}
void shuffle_in_thirds() {
  shuffle_in_thirds_kernel<<<1, 32>>>();
}
void write_behind_shared(int bytes_behind) {
  write_behind_shared_kernel<<<1, 1, 100>>>(bytes_behind);
}
void index_shared(int index) {
  index_shared_kernel<<<1, 1>>>(index);
}
void exceed_launch_bounds() {
  bounded_kernel<<<1, 65>>>();
}
void exceed_shared(int dynamic_bytes) {
  cudaFuncSetAttribute(much_shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       dynamic_bytes);
  much_shared_kernel<<<1, 1, dynamic_bytes>>>();
}
void overflow_stack() {
  int out = 0;
  overflow_kernel<<<1, 1>>>(&out);
}

}  // namespace wmtp::emulated::testing
