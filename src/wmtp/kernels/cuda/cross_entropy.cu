// One block per row. A row that fits in shared memory is read from device memory once; a longer one
// twice, the second time mostly from the L2 cache.
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kCrossEntropyThreads = 512;
constexpr float kLog2e = 1.44269504f;

__device__ __forceinline__ float exp_diff(float z, float top) {
  return exp2f((z - top) * kLog2e);
}

// The running maximum and the sum of e^(z - maximum).
struct Online {
  float top = -INFINITY, sum = 0;

  template <int N>
  __device__ __forceinline__ void add(const float (&z)[N]) {
    float highest = z[0];
#pragma unroll
    for (int i = 1; i < N; ++i) highest = fmaxf(highest, z[i]);
    // NaN must not be lost in fmaxf: the sum below carries it.
    if (highest > top) {
      sum *= exp_diff(top, highest);
      top = highest;
    }
    const float base = top == -INFINITY ? 0.0f : top;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += exp_diff(z[i], base);
  }
};

// Finishes a row whose maximum and sum are known: nll, and the gradient from `row` (shared or
// device memory).
template <class T, int N>
__device__ __forceinline__ void finish(const CudaCrossEntropy& a, std::int64_t m, const T* row,
                                       float picked, float top, float sum) {
  T* logits = static_cast<T*>(a.logits) + m * a.logits_stride;
  const std::int32_t target = a.targets[m];
  const bool known = target >= 0 && target < a.num_logits;
  if (threadIdx.x == 0) a.nll[m] = known ? logf(sum) + (top - picked) : NAN;
  if (!a.scale) return;
  const float scale = a.scale[m];
  const bool counts = scale != 0.0f;
  const float factor = scale / sum;
  const int num_packs = static_cast<int>(a.num_logits / N);
  for (int pack = threadIdx.x; pack < num_packs; pack += kCrossEntropyThreads) {
    float z[N];
    load<T, N>(row, static_cast<std::int64_t>(pack) * N, z);
    const int offset = target - pack * N;
#pragma unroll
    for (int i = 0; i < N; ++i)
      z[i] = counts ? factor * exp_diff(z[i], top) - (i == offset ? scale : 0.0f) : 0.0f;
    store<T, N>(logits, static_cast<std::int64_t>(pack) * N, z);
  }
  if (counts || !a.hidden) return;
  T* hidden = static_cast<T*>(a.hidden) + m * a.hidden_stride;
  for (std::int64_t d = threadIdx.x; d < a.num_features; d += kCrossEntropyThreads)
    hidden[d] = from_float<T>(0.0f);
}

template <class T>
__device__ __forceinline__ float picked_logit(const CudaCrossEntropy& a, std::int64_t m) {
  const std::int32_t target = a.targets[m];
  if (target < 0 || target >= a.num_logits) return 0.0f;
  return to_float(static_cast<const T*>(a.logits)[m * a.logits_stride + target]);
}

template <class T, int N>
__global__ void __launch_bounds__(kCrossEntropyThreads)
    cross_entropy_shared_kernel(const CudaCrossEntropy a) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* row = reinterpret_cast<T*>(shared);
  const std::int64_t m = blockIdx.x;
  const T* logits = static_cast<const T*>(a.logits) + m * a.logits_stride;
  const float picked = picked_logit<T>(a, m);
  const int num_packs = static_cast<int>(a.num_logits / N);
  float top = -INFINITY;
  for (int pack = threadIdx.x; pack < num_packs; pack += kCrossEntropyThreads) {
    const auto raw = reinterpret_cast<const Pack<T, N>*>(logits)[pack];
    reinterpret_cast<Pack<T, N>*>(row)[pack] = raw;
#pragma unroll
    for (int i = 0; i < N; ++i) top = fmaxf(top, to_float(raw.value[i]));
  }
  top = block_max(top);
  // A thread reads back only what it wrote, so the row needs no barrier of its own.
  float sum = 0;
  for (int pack = threadIdx.x; pack < num_packs; pack += kCrossEntropyThreads) {
    float z[N];
    load<T, N>(row, static_cast<std::int64_t>(pack) * N, z);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += exp_diff(z[i], top);
  }
  sum = block_sum(sum);
  finish<T, N>(a, m, row, picked, top, sum);
}

template <class T, int N>
__global__ void __launch_bounds__(kCrossEntropyThreads)
    cross_entropy_long_kernel(const CudaCrossEntropy a) {
  const std::int64_t m = blockIdx.x;
  const T* logits = static_cast<const T*>(a.logits) + m * a.logits_stride;
  const float picked = picked_logit<T>(a, m);
  const int num_packs = static_cast<int>(a.num_logits / N);
  Online online;
#pragma unroll 4
  for (int pack = threadIdx.x; pack < num_packs; pack += kCrossEntropyThreads) {
    float z[N];
    load<T, N>(logits, static_cast<std::int64_t>(pack) * N, z);
    online.add(z);
  }
  const float top = block_max(online.top);
  const float share = online.top == -INFINITY ? online.sum : online.sum * exp_diff(online.top, top);
  const float sum = block_sum(share);
  finish<T, N>(a, m, logits, picked, top, sum);
}

template <class T, int N>
int launch(const CudaCrossEntropy& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(a.rows);
  const std::int64_t row_bytes = a.num_logits * static_cast<std::int64_t>(sizeof(T));
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (row_bytes + 1024 <= most) {
    const auto kernel = cross_entropy_shared_kernel<T, N>;
    const cudaError_t set = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(row_bytes));
    if (set != cudaSuccess) return static_cast<int>(set);
    kernel<<<blocks, kCrossEntropyThreads, static_cast<std::size_t>(row_bytes), stream>>>(a);
  } else {
    cross_entropy_long_kernel<T, N><<<blocks, kCrossEntropyThreads, 0, stream>>>(a);
  }
  return launch_status();
}

}  // namespace

int launch_cross_entropy(const CudaCrossEntropy& a, void* stream) {
  return by_element(a.element, [&](auto type) {
    using T = decltype(type);
    constexpr int n = kPerPack<T>;
    const bool whole = a.num_logits % n == 0 && aligned(a.logits, a.logits_stride, n);
    return whole ? launch<T, n>(a, as_stream(stream)) : launch<T, 1>(a, as_stream(stream));
  });
}

}  // namespace wmtp::kernels
