#include "wmtp/tracking/histogram.h"

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"

namespace wmtp::tracking {

Histogram make_histogram(std::string name, std::int64_t step, const std::vector<double>& values,
                         std::size_t num_bins) {
  WMTP_CHECK(num_bins > 0, "a histogram has bins");
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  Histogram histogram{step, std::move(name), {}, {}};
  if (finite.empty()) return histogram;
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  // All values equal: one bin around them.
  const double from = *low == *high ? *low - 0.5 : *low, to = *low == *high ? *high + 0.5 : *high;
  const std::size_t bins = *low == *high ? 1 : num_bins;
  const double width = to / static_cast<double>(bins) - from / static_cast<double>(bins);
  histogram.counts.assign(bins, 0);
  for (std::size_t i = 0; i < bins; ++i)
    histogram.edges.push_back(from + static_cast<double>(i) * width);
  histogram.edges.push_back(to);
  for (const double value : finite) {
    const auto bin = static_cast<std::size_t>(std::max(0.0, (value - from) / width));
    ++histogram.counts[std::min(bin, bins - 1)];
  }
  return histogram;
}

}  // namespace wmtp::tracking
