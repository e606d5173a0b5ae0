#include "wmtp/tracking/eta.h"

#include <algorithm>
#include <vector>

namespace wmtp::tracking {
namespace {

// REQUIRES: not empty.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace

void EtaEstimator::add_step(double seconds) {
  ++num_steps_;
  step_times_s_.push_back(seconds);
  if (step_times_s_.size() > kWindow) step_times_s_.pop_front();
}

std::optional<double> EtaEstimator::remaining_s(const RemainingWork& work) const {
  if (num_steps_ < kFirstShown) return std::nullopt;
  const double step_s = median({step_times_s_.begin(), step_times_s_.end()});
  return static_cast<double>(work.num_steps) * step_s +
         static_cast<double>(work.num_validations) * validation_.value() +
         static_cast<double>(work.num_saves) * save_.value();
}

}  // namespace wmtp::tracking
