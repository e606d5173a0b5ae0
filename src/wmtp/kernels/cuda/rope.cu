// Groups of lanes turn one head: a lane holds N features of the first half and the N they pair
// with. A group is a power of two; lanes beyond the head hold zeros. Heads that do not divide into
// 16-byte packs, or do not lie on 16-byte boundaries, go to rope_any.cu.
#include "wmtp/kernels/cuda/float8.cuh"
#include "wmtp/kernels/cuda/rope.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kRopeThreads = 256;

template <int N>
struct Halves {
  float first[N], second[N];
};

template <class T, int N>
__device__ __forceinline__ Halves<N> load_head(const void* base, std::int64_t at, int half) {
  Halves<N> head;
  load<T, N>(base, at, head.first);
  load<T, N>(base, at + half, head.second);
  return head;
}

template <class T, int N>
__device__ __forceinline__ void store_head(void* base, std::int64_t at, int half,
                                           const Halves<N>& head) {
  store<T, N>(base, at, head.first);
  store<T, N>(base, at + half, head.second);
}

// sign 1 turns, -1 turns back.
template <int N>
__device__ __forceinline__ void turn(Halves<N>& head, const float* cos, const float* sin,
                                     float sign) {
  float c[N], s[N];
  load_floats(cos, c);
  load_floats(sin, s);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float first = head.first[i], second = head.second[i], turned = s[i] * sign;
    head.first[i] = first * c[i] - second * turned;
    head.second[i] = second * c[i] + first * turned;
  }
}

// Blocks that a multiprocessor holds at once: as many as there are registers for.
template <int N, bool kNorm>
constexpr int kRopeBlocks = N == 8 && kNorm ? 5 : 8;

template <class T, int N, int kLanes, bool kNorm>
__global__ void __launch_bounds__(kRopeThreads, kRopeBlocks<N, kNorm>)
    rope_kernel(const CudaRope a) {
  const int half = a.head_dim / 2, lane = threadIdx.x % kLanes;
  const int num_rotated = a.num_q + a.num_kv;
  const std::int64_t item =
      (static_cast<std::int64_t>(blockIdx.x) * kRopeThreads + threadIdx.x) / kLanes;
  const std::int64_t token = item / num_rotated;
  const int i = static_cast<int>(item % num_rotated), offset = i * a.head_dim + lane * N;
  // The others still take part in the shuffles.
  const bool inside = token < a.tokens && lane * N < half;
  Halves<N> head = {};
  if (inside) head = load_head<T, N>(a.qkv, token * a.qkv_stride + offset, half);
  if (kNorm) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < N; ++j)
      squares += head.first[j] * head.first[j] + head.second[j] * head.second[j];
    const float mean = warp_sum<kLanes>(squares) / static_cast<float>(a.head_dim);
    const float rstd = rsqrtf(mean + a.eps);
    if (inside && lane == 0) a.rstd[token * num_rotated + i] = rstd;
    Halves<N> weight = {};
    if (inside) weight = load_head<T, N>(i < a.num_q ? a.q_weight : a.k_weight, lane * N, half);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      head.first[j] = rounded<T>(rounded<T>(head.first[j] * rstd) * weight.first[j]);
      head.second[j] = rounded<T>(rounded<T>(head.second[j] * rstd) * weight.second[j]);
    }
  }
  if (!inside) return;
  turn(head, a.cos + token * half + lane * N, a.sin + token * half + lane * N, 1.0f);
  if (kNorm)
    store_head<T, N>(a.out, token * a.out_stride + offset, half, head);
  else
    store_head<T, N>(a.qkv, token * a.qkv_stride + offset, half, head);
}

// Sums of one lane position over its block's heads: shared is [groups][2][head_dim].
template <int N, int kLanes>
__device__ void write_partials(const CudaRopeBackward& a, const Halves<N> (&sums)[2],
                               float* shared) {
  const int half = a.head_dim / 2, lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  constexpr int kGroups = kRopeThreads / kLanes;
  const bool holds = lane * N < half;
#pragma unroll
  for (int kind = 0; kind < 2; ++kind)
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (!holds) continue;
      float* row = shared + (group * 2 + kind) * a.head_dim + lane * N + j;
      row[0] = sums[kind].first[j];
      row[half] = sums[kind].second[j];
    }
  __syncthreads();
  for (int c = threadIdx.x; c < 2 * a.head_dim; c += kRopeThreads) {
    float total = 0;
    for (int g = 0; g < kGroups; ++g) total += shared[g * 2 * a.head_dim + c];
    a.partial[static_cast<std::int64_t>(blockIdx.x) * 2 * a.head_dim + c] = total;
  }
}

// The gradient of one head. `sums` grows by those of the norm's weights, q and k apart. All lanes
// of the warp take part in the shuffles; those that are not `inside` hold nothing. Returns the
// larger of `largest` and the magnitudes that it writes, if there is an amax.
template <class T, int N, int kLanes, bool kNorm>
__device__ __forceinline__ unsigned int turn_head_back(const CudaRopeBackward& a,
                                                       std::int64_t token, int i, bool inside,
                                                       Halves<N> (&sums)[2], unsigned int largest) {
  const int half = a.head_dim / 2, lane = threadIdx.x % kLanes;
  const int num_rotated = a.num_q + a.num_kv;
  const bool rotated = inside && i < num_rotated, is_q = i < a.num_q;
  const std::int64_t angle = token * half + lane * N, offset = i * a.head_dim + lane * N;
  const Source source = source_of(a, token, i);
  Halves<N> g = {}, x = {}, weight = {};
  float rstd = 0, dot = 0;
  if (rotated) {
    // What is loaded is under way at once: nothing is computed in between.
    g = load_head<T, N>(source.base, source.at + lane * N, half);
    if (kNorm) {
      x = load_head<T, N>(a.qkv, token * a.qkv_stride + offset, half);
      rstd = a.rstd[token * num_rotated + i];
      weight = load_head<T, N>(is_q ? a.q_weight : a.k_weight, lane * N, half);
    }
    turn(g, a.cos + angle, a.sin + angle, -1.0f);
  } else if (inside) {
    g = load_head<T, N>(source.base, source.at + lane * N, half);
  }
  if (kNorm) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      x.first[j] *= rstd;
      x.second[j] *= rstd;
      const float first = g.first[j] * x.first[j], second = g.second[j] * x.second[j];
      sums[0].first[j] += is_q ? first : 0.0f;
      sums[0].second[j] += is_q ? second : 0.0f;
      sums[1].first[j] += is_q ? 0.0f : first;
      sums[1].second[j] += is_q ? 0.0f : second;
      dot += first * weight.first[j] + second * weight.second[j];
    }
    const float mean = warp_sum<kLanes>(dot) / static_cast<float>(a.head_dim);
    if (rotated) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        g.first[j] = rstd * (g.first[j] * weight.first[j] - x.first[j] * mean);
        g.second[j] = rstd * (g.second[j] * weight.second[j] - x.second[j] * mean);
      }
    }
  }
  if (inside) store_head<T, N>(a.dqkv, token * a.dqkv_stride + offset, half, g);
  // Outside g is zero, which is no larger than any.
  if (!a.amax) return largest;
  return larger_written<T>(larger_written<T>(largest, g.first), g.second);
}

// The grid has a group of lanes for each head.
template <class T, int N, int kLanes>
__global__ void __launch_bounds__(kRopeThreads) rope_backward_kernel(const CudaRopeBackward a) {
  const int num_heads = a.num_q + 2 * a.num_kv;
  const std::int64_t item =
      (static_cast<std::int64_t>(blockIdx.x) * kRopeThreads + threadIdx.x) / kLanes;
  const std::int64_t token = item / num_heads;
  const bool inside = token < a.tokens && threadIdx.x % kLanes * N < a.head_dim / 2;
  Halves<N> none[2];
  const unsigned int largest = turn_head_back<T, N, kLanes, false>(
      a, token, static_cast<int>(item % num_heads), inside, none, 0);
  if (a.amax) raise_one(a.amax, largest);
}

// The grid walks the heads, so that sums stay in registers until the end.
template <class T, int N, int kLanes>
__global__ void __launch_bounds__(kRopeThreads)
    rope_norm_backward_kernel(const CudaRopeBackward a) {
  extern __shared__ float shared[];
  const int num_heads = a.num_q + 2 * a.num_kv;
  const bool holds = threadIdx.x % kLanes * N < a.head_dim / 2;
  constexpr int kGroups = kRopeThreads / kLanes;
  const std::int64_t num_items = a.tokens * num_heads;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kGroups;
  std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kGroups;
  // A turn of the loop goes on by these, so that none divides.
  const std::int64_t step_tokens = step / num_heads;
  const int step_heads = static_cast<int>(step % num_heads);
  std::int64_t token = (first + threadIdx.x / kLanes) / num_heads;
  int i = static_cast<int>((first + threadIdx.x / kLanes) % num_heads);
  Halves<N> sums[2] = {};
  unsigned int largest = 0;
  for (; first < num_items; first += step) {
    largest =
        turn_head_back<T, N, kLanes, true>(a, token, i, holds && token < a.tokens, sums, largest);
    token += step_tokens, i += step_heads;
    if (i >= num_heads) ++token, i -= num_heads;
  }
  if (a.amax) raise_one(a.amax, largest);
  if (a.partial) write_partials<N, kLanes>(a, sums, shared);
}

template <int kLanes>
struct Lanes {
  static constexpr int value = kLanes;
};

// REQUIRES a head that fits.
template <class F>
int by_lanes(int head_dim, int per_pack, const F& call) {
  const int lanes = head_dim / 2 / per_pack;
  if (lanes <= 1) return call(Lanes<1>{});
  if (lanes <= 2) return call(Lanes<2>{});
  if (lanes <= 4) return call(Lanes<4>{});
  if (lanes <= 8) return call(Lanes<8>{});
  if (lanes <= 16) return call(Lanes<16>{});
  return call(Lanes<32>{});
}

bool divides(int head_dim, int n) {
  return head_dim / 2 % n == 0 && head_dim / 2 / n <= 32;
}

bool fits(const CudaRope& a, int n) {
  return divides(a.head_dim, n) && aligned(a.cos) && aligned(a.sin) &&
         aligned(a.qkv, a.qkv_stride, n) && aligned(a.out, a.out_stride, n) &&
         aligned(a.q_weight) && aligned(a.k_weight);
}

bool fits(const CudaRopeBackward& a, int n) {
  return divides(a.head_dim, n) && aligned(a.cos) && aligned(a.sin) &&
         aligned(a.qkv, a.qkv_stride, n) && aligned(a.dqkv, a.dqkv_stride, n) &&
         aligned(a.q_weight) && aligned(a.k_weight) && aligned(a.dq, a.dq_token, n) &&
         aligned(a.dk, a.dk_token, n) && aligned(a.dv, a.dv_token, n) && a.dq_head % n == 0 &&
         a.dk_head % n == 0 && a.dv_head % n == 0;
}

}  // namespace

int launch_rope(const CudaRope& a, void* stream) {
  return by_element(a.element, [&](auto type) {
    using T = decltype(type);
    constexpr int n = kPerPack<T>;
    if (!fits(a, n)) return launch_rope_any(a, stream);
    return by_lanes(a.head_dim, n, [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      const std::int64_t threads = a.tokens * (a.num_q + a.num_kv) * kLanes;
      const auto blocks = static_cast<unsigned>((threads + kRopeThreads - 1) / kRopeThreads);
      if (a.q_weight)
        rope_kernel<T, n, kLanes, true><<<blocks, kRopeThreads, 0, as_stream(stream)>>>(a);
      else
        rope_kernel<T, n, kLanes, false><<<blocks, kRopeThreads, 0, as_stream(stream)>>>(a);
      return launch_status();
    });
  });
}

int launch_rope_backward(const CudaRopeBackward& a, void* stream) {
  const int status = by_element(a.element, [&](auto type) {
    using T = decltype(type);
    constexpr int n = kPerPack<T>;
    if (!fits(a, n)) return launch_rope_backward_any(a, stream);
    return by_lanes(a.head_dim, n, [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      const std::int64_t threads = a.tokens * (a.num_q + 2 * a.num_kv) * kLanes;
      const auto all = static_cast<unsigned>((threads + kRopeThreads - 1) / kRopeThreads);
      if (a.q_weight) {
        const std::size_t shared =
            a.partial ? sizeof(float) * (kRopeThreads / kLanes) * 2 * a.head_dim : 0;
        const auto kernel = rope_norm_backward_kernel<T, n, kLanes>;
        const cudaError_t set = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
        if (set != cudaSuccess) return static_cast<int>(set);
        kernel<<<a.partial ? a.num_blocks : all, kRopeThreads, shared, as_stream(stream)>>>(a);
      } else {
        rope_backward_kernel<T, n, kLanes><<<all, kRopeThreads, 0, as_stream(stream)>>>(a);
      }
      return launch_status();
    });
  });
  if (status != 0 || !a.partial) return status;
  if (a.dq_weight) {
    const int added = add_partials(a.partial, a.num_blocks, a.head_dim, 2 * a.head_dim, a.dq_weight,
                                   a.dweight_element, as_stream(stream));
    if (added != 0) return added;
  }
  if (!a.dk_weight) return 0;
  return add_partials(a.partial + a.head_dim, a.num_blocks, a.head_dim, 2 * a.head_dim, a.dk_weight,
                      a.dweight_element, as_stream(stream));
}

}  // namespace wmtp::kernels
