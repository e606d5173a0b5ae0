// One warp per document: sums by lane, then over the warp, in a fixed order.
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kStatsThreads = 128, kColumns = 6;

template <class Better>
__device__ double warp_best(double value, const Better& better) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const double other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = better(other, value) ? other : value;
  }
  return value;
}

struct Levels {
  double count, mean, variance, corr;
};

__device__ Levels levels(const CudaResponseStats& a, int begin, int end, int lane) {
  double count = 0, sum = 0, positions = 0, low = INFINITY, high = -INFINITY;
  for (int t = begin + lane; t < end; t += 32) {
    if (!a.mask[t]) continue;
    const double v = a.values[t];
    count += 1, sum += v, positions += t - begin;
    low = fmin(low, v), high = fmax(high, v);
  }
  count = warp_sum(count), sum = warp_sum(sum), positions = warp_sum(positions);
  low = warp_best(low, [](double x, double y) { return x < y; });
  high = warp_best(high, [](double x, double y) { return x > y; });
  const double mean = sum / count, mean_t = positions / count;
  double vv = 0, tt = 0, vt = 0;
  for (int t = begin + lane; t < end; t += 32) {
    if (!a.mask[t]) continue;
    const double dv = a.values[t] - mean, dt = t - begin - mean_t;
    vv += dv * dv, tt += dt * dt, vt += dv * dt;
  }
  vv = warp_sum(vv), tt = warp_sum(tt), vt = warp_sum(vt);
  return {count, mean, vv / count, count >= 3 && low < high ? vt / sqrt(vv * tt) : nan("")};
}

struct Changes {
  double mean, spikiness;
};

__device__ Changes changes(const CudaResponseStats& a, int begin, int end, int lane) {
  double count = 0, sum = 0, largest = 0;
  for (int t = begin + lane; t + 1 < end; t += 32) {
    if (!a.mask[t] || !a.mask[t + 1]) continue;
    const double change = fabs(static_cast<double>(a.values[t + 1]) - a.values[t]);
    count += 1, sum += change, largest = fmax(largest, change);
  }
  count = warp_sum(count), sum = warp_sum(sum);
  largest = warp_best(largest, [](double x, double y) { return x > y; });
  if (count == 0) return {nan(""), nan("")};
  return {sum / count, largest / (sum / count + 1e-8)};
}

__global__ void __launch_bounds__(kStatsThreads) response_stats_kernel(const CudaResponseStats a) {
  const int lane = threadIdx.x & 31;
  const std::int64_t d = (static_cast<std::int64_t>(blockIdx.x) * kStatsThreads + threadIdx.x) / 32;
  if (d >= a.num_docs) return;
  const int begin = a.doc_start[d], end = a.doc_start[d + 1];
  const Levels level = levels(a, begin, end, lane);
  const Changes change = changes(a, begin, end, lane);
  if (lane != 0) return;
  double* stats = a.stats + d * kColumns;
  stats[0] = level.count;
  stats[1] = level.count > 0 ? level.mean : nan("");
  stats[2] = level.count > 0 ? level.variance : nan("");
  stats[3] = change.mean, stats[4] = change.spikiness, stats[5] = level.corr;
}

}  // namespace

int launch_response_stats(const CudaResponseStats& a, void* stream) {
  const auto blocks = static_cast<unsigned>((a.num_docs * 32 + kStatsThreads - 1) / kStatsThreads);
  response_stats_kernel<<<blocks, kStatsThreads, 0, as_stream(stream)>>>(a);
  return launch_status();
}

}  // namespace wmtp::kernels
