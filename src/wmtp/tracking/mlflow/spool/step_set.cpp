#include "wmtp/tracking/mlflow/spool/step_set.h"

#include <iterator>

namespace wmtp::tracking::mlflow {
namespace {

// Without overflow, whatever the steps are. REQUIRES to >= from.
std::uint64_t step_distance(std::int64_t from, std::int64_t to) {
  return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
}

}  // namespace

bool StepSet::contains(std::int64_t step) const {
  auto at = strides_.upper_bound(step);
  if (at == strides_.begin()) return false;
  --at;
  const auto& [first, run] = *at;
  if (step == first) return true;
  return step <= run.last && run.stride > 0 && step_distance(first, step) % run.stride == 0;
}

bool StepSet::insert(std::int64_t step) {
  if (contains(step)) return false;
  auto at = strides_.upper_bound(step);
  if (at == strides_.begin()) return strides_[step] = {0, step}, true;
  --at;
  const std::int64_t first = at->first;
  Stride& run = at->second;
  if (step > run.last) {
    const std::uint64_t distance = step_distance(run.last, step);
    const bool goes_on = run.stride == 0 || run.stride == distance;
    if (goes_on)
      run = {distance, step};
    else
      strides_[step] = {0, step};
    return true;
  }
  // Between two steps of a stride, which falls apart there.
  const std::uint64_t num_before = step_distance(first, step) / run.stride;
  const auto before =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + num_before * run.stride);
  const auto after = static_cast<std::int64_t>(static_cast<std::uint64_t>(before) + run.stride);
  const Stride whole = run;
  run = {num_before == 0 ? 0 : whole.stride, before};
  strides_[step] = {0, step};
  strides_[after] = {after == whole.last ? 0 : whole.stride, whole.last};
  return true;
}

}  // namespace wmtp::tracking::mlflow
