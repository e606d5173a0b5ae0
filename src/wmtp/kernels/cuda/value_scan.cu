// One warp per document, 32 positions at a time from T* down: lane 0 holds the latest of them. A
// position is the affine map next -> gain + factor * next; the warp composes 32 of them by a scan.
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kScanThreads = 128;
constexpr unsigned kAll = 0xffffffffu;

struct Document {
  int begin, end, first, last;  // last < first: no response
  float reward, lambda;
};

__device__ Document find_document(const CudaValueScan& a, std::int64_t d, int lane) {
  Document doc{a.doc_start[d],
               a.doc_start[d + 1],
               0,
               -1,
               a.reward ? a.reward[d] : 0.f,
               a.device_lambda ? *a.device_lambda : a.lambda};
  for (int base = doc.begin; base < doc.end; base += 32) {
    const unsigned hits = __ballot_sync(kAll, base + lane < doc.end && a.mask[base + lane] != 0);
    if (!hits) continue;
    if (doc.last < 0) doc.first = base + __ffs(hits) - 1;
    doc.last = base + 31 - __clz(hits);
  }
  return doc;
}

__device__ bool is_read(const CudaValueScan& a, const Document& doc, int t) {
  switch (a.kind) {
    case ScanKind::td0:
      return a.mask[t] || (t + 1 < doc.last && a.mask[t + 1]);
    case ScanKind::gae_value:
      return true;
    case ScanKind::gae_reward:
      return t < doc.last;
    case ScanKind::monte_carlo:
      return a.mask[t] != 0;
    case ScanKind::lambda_return:
      return t >= doc.first;
  }
  return false;
}

__device__ int count_bad(const CudaValueScan& a, const Document& doc, int lane) {
  int bad = 0;
  const int from = max(doc.begin, doc.first - 1);
  for (int t = from + lane; t <= doc.last; t += 32)
    if (is_read(a, doc, t) && !isfinite(a.values[t])) ++bad;
  return warp_sum(bad);
}

struct Affine {
  float gain, factor;
};

__device__ Affine map_at(const CudaValueScan& a, const Document& doc, int t) {
  const float before = t > doc.begin ? a.values[t - 1] : a.v_init;
  const bool is_last = t == doc.last;
  switch (a.kind) {
    case ScanKind::td0:
      return {is_last ? doc.reward - a.values[t] : a.gamma * a.values[t] - before, 0.f};
    case ScanKind::monte_carlo:
      return {doc.reward - a.values[t], 0.f};
    case ScanKind::lambda_return:
      if (is_last) return {doc.reward, 0.f};
      return {a.gamma * (1.f - doc.lambda) * a.values[t + 1], a.gamma * doc.lambda};
    case ScanKind::gae_reward:
      if (is_last) return {doc.reward - before, 0.f};
      [[fallthrough]];
    case ScanKind::gae_value:
      return {a.gamma * a.values[t] - before, a.gamma * doc.lambda};
  }
  return {0.f, 0.f};
}

__device__ void scan(const CudaValueScan& a, const Document& doc, int lane) {
  const bool recurs = a.kind != ScanKind::td0 && a.kind != ScanKind::monte_carlo;
  float carry = 0.f;
  for (int top = doc.last; top >= doc.first; top -= 32) {
    const int t = top - lane;
    const bool inside = t >= doc.first;
    const bool counts = inside && a.mask[t] != 0;
    // Only a recurrence reads positions in gaps of the mask.
    Affine map = counts || (inside && recurs) ? map_at(a, doc, t) : Affine{0.f, 0.f};
    if (recurs) {
#pragma unroll
      for (int offset = 1; offset < 32; offset *= 2) {
        const float gain = __shfl_up_sync(kAll, map.gain, offset);
        const float factor = __shfl_up_sync(kAll, map.factor, offset);
        if (lane >= offset) map.gain += map.factor * gain, map.factor *= factor;
      }
      map.gain += map.factor * carry;
      carry = __shfl_sync(kAll, map.gain, 31);
    }
    if (counts) a.out[t] = map.gain;
  }
}

__global__ void __launch_bounds__(kScanThreads) value_scan_kernel(const CudaValueScan a) {
  const int lane = threadIdx.x & 31;
  const std::int64_t d = (static_cast<std::int64_t>(blockIdx.x) * kScanThreads + threadIdx.x) / 32;
  if (d >= a.num_docs) return;
  const Document doc = find_document(a, d, lane);
  for (int t = doc.begin + lane; t < doc.end; t += 32)
    if (!a.mask[t]) a.out[t] = 0.f;
  if (doc.last >= doc.first) scan(a, doc, lane);
  if (!a.bad) return;
  const int bad = doc.last >= doc.first ? count_bad(a, doc, lane) : 0;
  if (lane == 0) a.bad[d] = bad;
}

}  // namespace

int launch_value_scan(const CudaValueScan& a, void* stream) {
  const auto blocks = static_cast<unsigned>((a.num_docs * 32 + kScanThreads - 1) / kScanThreads);
  value_scan_kernel<<<blocks, kScanThreads, 0, as_stream(stream)>>>(a);
  return launch_status();
}

}  // namespace wmtp::kernels
