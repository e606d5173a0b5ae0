#include "wmtp/run/report/own_time.h"

#include <algorithm>
#include <utility>

namespace wmtp::run {

std::optional<OwnTime> OwnTimes::take() {
  std::vector<OwnTime> steps = std::exchange(steps_, {});
  if (steps.size() < 3) return std::nullopt;
  steps.erase(std::max_element(
      steps.begin(), steps.end(),
      [](const OwnTime& one, const OwnTime& other) { return one.sum_s() < other.sum_s(); }));
  OwnTime mean;
  for (const OwnTime& step : steps) {
    mean.compute_s += step.compute_s;
    mean.data_s += step.data_s;
    mean.comm_s += step.comm_s;
  }
  const auto count = static_cast<double>(steps.size());
  return OwnTime{mean.compute_s / count, mean.data_s / count, mean.comm_s / count};
}

}  // namespace wmtp::run
