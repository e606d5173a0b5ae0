// One block: four passes over the scores' bytes from the top narrow the key of the c-th largest
// down, a last one marks what is above it and, in index order, as many equals as are still wanted.
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kTopKThreads = 1024, kBins = 256;
constexpr std::int64_t kMillion = 1'000'000;

// Rises with the score; -0 equals 0, NaN is above all.
__device__ unsigned key_of(float score) {
  if (isnan(score)) return 0xffffffffu;
  const unsigned bits = __float_as_uint(score + 0.f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ double score_of(unsigned key) {
  if (key == 0xffffffffu) return nan("");
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ bool is_valid(const CudaTopK& a, std::int64_t i) {
  return !a.valid || a.valid[i];
}

__device__ int count_valid(const CudaTopK& a) {
  if (!a.valid) return static_cast<int>(a.size);
  int count = 0;
  for (std::int64_t i = threadIdx.x; i < a.size; i += kTopKThreads) count += a.valid[i] != 0;
  return block_sum(count);
}

struct Edge {
  unsigned key;      // of the c-th largest score
  int wanted, ties;  // of the scores equal to it: how many are selected, how many there are
};

__device__ Edge find_edge(const CudaTopK& a, int count) {
  __shared__ int bins[kBins];
  __shared__ Edge edge;
  unsigned prefix = 0;
  int wanted = count;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int bin = threadIdx.x; bin < kBins; bin += kTopKThreads) bins[bin] = 0;
    __syncthreads();
    const unsigned above = shift == 24 ? 0u : 0xffffffffu << (shift + 8);
    for (std::int64_t i = threadIdx.x; i < a.size; i += kTopKThreads) {
      const unsigned key = key_of(a.scores[i]);
      if (is_valid(a, i) && (key & above) == prefix) atomicAdd(&bins[key >> shift & 255u], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int bin = kBins - 1;
      while (bins[bin] < wanted) wanted -= bins[bin--];
      edge = {prefix | static_cast<unsigned>(bin) << shift, wanted, bins[bin]};
    }
    __syncthreads();
    prefix = edge.key, wanted = edge.wanted;
  }
  return edge;
}

// The largest key below the edge's; REQUIRES one, or more ties than are selected.
__device__ unsigned next_below(const CudaTopK& a, const Edge& edge) {
  if (edge.ties > edge.wanted) return edge.key;
  __shared__ unsigned largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  unsigned mine = 0;
  for (std::int64_t i = threadIdx.x; i < a.size; i += kTopKThreads) {
    const unsigned key = key_of(a.scores[i]);
    if (is_valid(a, i) && key < edge.key) mine = max(mine, key);
  }
  atomicMax(&largest, mine);
  __syncthreads();
  return largest;
}

// Marks the selected ones; equals in index order, counted chunk by chunk.
__device__ void mark(const CudaTopK& a, const Edge& edge) {
  __shared__ int warp_ties[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int before = 0;
  for (std::int64_t base = 0; base < a.size; base += kTopKThreads) {
    const std::int64_t i = base + threadIdx.x;
    const bool valid = i < a.size && is_valid(a, i);
    const unsigned key = valid ? key_of(a.scores[i]) : 0u;
    const bool tie = valid && key == edge.key;
    const unsigned ties = __ballot_sync(0xffffffffu, tie);
    __syncthreads();
    if (lane == 0) warp_ties[warp] = __popc(ties);
    __syncthreads();
    const int of_lane = warp_ties[lane];
    const int place =
        before + warp_sum(lane < warp ? of_lane : 0) + __popc(ties & ((1u << lane) - 1u));
    const bool selected = valid && (key > edge.key || (tie && place < edge.wanted));
    if (i < a.size) a.selected[i] = selected ? 1.f : 0.f;
    before += warp_sum(of_lane);
  }
}

__global__ void __launch_bounds__(kTopKThreads) top_k_kernel(const CudaTopK a) {
  const std::int64_t n = count_valid(a);
  const std::int64_t count = n == 0 ? 0 : 1 + (n - 1) * a.share_millionths / kMillion;
  double theta = nan("");
  if (n == 0) {
    for (std::int64_t i = threadIdx.x; i < a.size; i += kTopKThreads) a.selected[i] = 0.f;
  } else {
    const Edge edge = find_edge(a, static_cast<int>(count));
    mark(a, edge);
    theta = score_of(edge.key);
    const std::int64_t fraction = (n - 1) * (kMillion - a.share_millionths) % kMillion;
    if (fraction > 0) {
      const double below = score_of(next_below(a, edge));
      theta = below + static_cast<double>(fraction) / kMillion * (theta - below);
    }
  }
  if (threadIdx.x != 0) return;
  a.summary[0] = static_cast<double>(n), a.summary[1] = static_cast<double>(count);
  a.summary[2] = theta;
}

}  // namespace

int launch_top_k(const CudaTopK& a, void* stream) {
  top_k_kernel<<<1, kTopKThreads, 0, as_stream(stream)>>>(a);
  return launch_status();
}

}  // namespace wmtp::kernels
