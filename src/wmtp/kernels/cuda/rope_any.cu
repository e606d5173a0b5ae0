// One warp per head, a pair of features per lane and turn; the head is read twice where it is
// normalised.
#include "wmtp/kernels/cuda/float8.cuh"
#include "wmtp/kernels/cuda/rope.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kRopeAnyThreads = 256;

struct Pair {
  float first, second;
};

template <class T>
__device__ __forceinline__ Pair load_pair(const T* head, int j, int half) {
  return {to_float(head[j]), to_float(head[j + half])};
}

template <class T>
__device__ __forceinline__ void store_pair(T* head, int j, int half, const Pair& pair) {
  head[j] = from_float<T>(pair.first);
  head[j + half] = from_float<T>(pair.second);
}

__device__ __forceinline__ Pair turned(const Pair& pair, float cos, float sin) {
  return {pair.first * cos - pair.second * sin, pair.second * cos + pair.first * sin};
}

template <class T>
__global__ void __launch_bounds__(kRopeAnyThreads) rope_any_kernel(const CudaRope a) {
  const int half = a.head_dim / 2, lane = threadIdx.x & 31;
  const int num_rotated = a.num_q + a.num_kv;
  const std::int64_t item =
      (static_cast<std::int64_t>(blockIdx.x) * kRopeAnyThreads + threadIdx.x) / 32;
  const std::int64_t token = item / num_rotated;
  const int i = static_cast<int>(item % num_rotated), offset = i * a.head_dim;
  if (token >= a.tokens) return;
  T* from = static_cast<T*>(a.qkv) + token * a.qkv_stride + offset;
  T* to = a.q_weight ? static_cast<T*>(a.out) + token * a.out_stride + offset : from;
  const T* weight = static_cast<const T*>(i < a.num_q ? a.q_weight : a.k_weight);
  float rstd = 0;
  if (weight) {
    float squares = 0;
    for (int j = lane; j < a.head_dim; j += 32) {
      const float value = to_float(from[j]);
      squares += value * value;
    }
    rstd = rsqrtf(warp_sum(squares) / static_cast<float>(a.head_dim) + a.eps);
    if (lane == 0) a.rstd[token * num_rotated + i] = rstd;
  }
  for (int j = lane; j < half; j += 32) {
    Pair head = load_pair(from, j, half);
    if (weight) {
      const Pair w = load_pair(weight, j, half);
      head.first = rounded<T>(rounded<T>(head.first * rstd) * w.first);
      head.second = rounded<T>(rounded<T>(head.second * rstd) * w.second);
    }
    store_pair(to, j, half, turned(head, a.cos[token * half + j], a.sin[token * half + j]));
  }
}

// The gradient of pair j before the rotation.
template <class T>
__device__ __forceinline__ Pair turned_back(const CudaRopeBackward& a, const Source& source,
                                            std::int64_t token, int j, bool rotated) {
  const int half = a.head_dim / 2;
  const Pair g = load_pair(static_cast<const T*>(source.base) + source.at, j, half);
  return rotated ? turned(g, a.cos[token * half + j], -a.sin[token * half + j]) : g;
}

// A lane keeps its features of the weight gradients in the warp's row of partial, if there is one:
// then the grid has as many warps as partial has rows.
template <class T>
__global__ void __launch_bounds__(kRopeAnyThreads)
    rope_backward_any_kernel(const CudaRopeBackward a) {
  const int half = a.head_dim / 2, lane = threadIdx.x & 31;
  const int num_rotated = a.num_q + a.num_kv, num_heads = num_rotated + a.num_kv;
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const std::int64_t num_warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / 32;
  float* partial = a.partial ? a.partial + warp * 2 * a.head_dim : nullptr;
  if (partial)
    for (int c = lane; c < 2 * a.head_dim; c += 32) partial[c] = 0;
  __syncwarp();
  unsigned int largest = 0;
  for (std::int64_t item = warp; item < a.tokens * num_heads; item += num_warps) {
    const std::int64_t token = item / num_heads;
    const int i = static_cast<int>(item % num_heads);
    const Source source = source_of(a, token, i);
    T* to = static_cast<T*>(a.dqkv) + token * a.dqkv_stride + i * a.head_dim;
    const bool rotated = i < num_rotated, normalised = a.q_weight && rotated;
    const T* x = static_cast<const T*>(a.qkv) + token * a.qkv_stride + i * a.head_dim;
    const T* weight = static_cast<const T*>(i < a.num_q ? a.q_weight : a.k_weight);
    float* sums = partial ? partial + (i < a.num_q ? 0 : a.head_dim) : nullptr;
    const float rstd = normalised ? a.rstd[token * num_rotated + i] : 0.0f;
    float dot = 0;
    for (int j = lane; normalised && j < half; j += 32) {
      const Pair g = turned_back<T>(a, source, token, j, true);
      const Pair value = load_pair(x, j, half), w = load_pair(weight, j, half);
      const float first = g.first * value.first * rstd, second = g.second * value.second * rstd;
      if (partial) sums[j] += first, sums[j + half] += second;
      dot += first * w.first + second * w.second;
    }
    const float mean = warp_sum(dot) / static_cast<float>(a.head_dim);
    for (int j = lane; j < half; j += 32) {
      Pair g = turned_back<T>(a, source, token, j, rotated);
      if (normalised) {
        const Pair value = load_pair(x, j, half), w = load_pair(weight, j, half);
        g.first = rstd * (g.first * w.first - value.first * rstd * mean);
        g.second = rstd * (g.second * w.second - value.second * rstd * mean);
      }
      store_pair(to, j, half, g);
      if (a.amax) largest = larger_written<T>(largest, {g.first, g.second});
    }
  }
  if (a.amax) raise_one(a.amax, largest);
}

}  // namespace

int launch_rope_any(const CudaRope& a, void* stream) {
  const std::int64_t threads = a.tokens * (a.num_q + a.num_kv) * 32;
  const auto blocks = static_cast<unsigned>((threads + kRopeAnyThreads - 1) / kRopeAnyThreads);
  return by_element(a.element, [&](auto type) {
    rope_any_kernel<decltype(type)><<<blocks, kRopeAnyThreads, 0, as_stream(stream)>>>(a);
    return launch_status();
  });
}

int launch_rope_backward_any(const CudaRopeBackward& a, void* stream) {
  const std::int64_t threads = a.tokens * (a.num_q + 2 * a.num_kv) * 32;
  const auto all = static_cast<unsigned>((threads + kRopeAnyThreads - 1) / kRopeAnyThreads);
  const unsigned blocks = a.partial ? static_cast<unsigned>(a.num_blocks) : all;
  return by_element(a.element, [&](auto type) {
    rope_backward_any_kernel<decltype(type)>
        <<<blocks, a.partial ? 32 : kRopeAnyThreads, 0, as_stream(stream)>>>(a);
    return launch_status();
  });
}

}  // namespace wmtp::kernels
