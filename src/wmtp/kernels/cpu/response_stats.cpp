// N tokens, D documents, S statistics.
#include "wmtp/kernels/response_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"

namespace wmtp::kernels::cpu {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class T>
struct Response {
  const T* values;
  const std::uint8_t* mask;
  std::int64_t begin, end;
};

// Count, mean, variance and the correlation with the position.
template <class T>
void levels(const Response<T>& r, double* stats) {
  double count = 0, sum = 0, positions = 0, low = HUGE_VAL, high = -HUGE_VAL;
  for (std::int64_t t = r.begin; t < r.end; ++t) {
    if (!r.mask[t]) continue;
    const double v = r.values[t];
    count += 1, sum += v, positions += static_cast<double>(t - r.begin);
    low = std::min(low, v), high = std::max(high, v);
  }
  const double mean = sum / count, mean_t = positions / count;
  double vv = 0, tt = 0, vt = 0;
  for (std::int64_t t = r.begin; t < r.end; ++t) {
    if (!r.mask[t]) continue;
    const double dv = r.values[t] - mean, dt = static_cast<double>(t - r.begin) - mean_t;
    vv += dv * dv, tt += dt * dt, vt += dv * dt;
  }
  stats[kStatCount] = count;
  stats[kStatMean] = count > 0 ? mean : kNone;
  stats[kStatVariance] = count > 0 ? vv / count : kNone;
  stats[kStatCorr] = count >= 3 && low < high ? vt / std::sqrt(vv * tt) : kNone;
}

template <class T>
void changes(const Response<T>& r, double* stats) {
  double count = 0, sum = 0, largest = 0;
  for (std::int64_t t = r.begin; t + 1 < r.end; ++t) {
    if (!r.mask[t] || !r.mask[t + 1]) continue;
    const double change = std::abs(static_cast<double>(r.values[t + 1]) - r.values[t]);
    count += 1, sum += change, largest = std::max(largest, change);
  }
  stats[kStatMeanAbsTd] = count > 0 ? sum / count : kNone;
  stats[kStatSpikiness] = count > 0 ? largest / (sum / count + 1e-8) : kNone;
}

}  // namespace

template <class T>
void response_stats(const Tensor& values_N, const Responses& responses, const Tensor& stats_DS) {
  const std::int32_t* start = responses.doc_start_D1.data_ptr<std::int32_t>();
  const std::int64_t num_docs = responses.num_docs();
  double* stats = stats_DS.data_ptr<double>();
  parallel_for(num_docs, grain_of(4 * start[num_docs] / num_docs), [&](auto begin, auto end) {
    for (std::int64_t d = begin; d < end; ++d) {
      const Response<T> response{values_N.data_ptr<T>(), responses.mask_N.data_ptr<std::uint8_t>(),
                                 start[d], start[d + 1]};
      levels(response, stats + d * kNumResponseStats);
      changes(response, stats + d * kNumResponseStats);
    }
  });
}

template void response_stats<float>(const Tensor&, const Responses&, const Tensor&);
template void response_stats<double>(const Tensor&, const Responses&, const Tensor&);

}  // namespace wmtp::kernels::cpu
