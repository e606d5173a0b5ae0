#include "wmtp/run/report/loss_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

constexpr std::size_t kFewestLosses = 20;
constexpr double kNormal = 1.4826;  // MAD of a normal distribution -> its standard deviation
constexpr double kLeastDeviation = 0.01;

double median_of_copy(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double deviation_of(std::vector<double> values, double median) {
  for (double& value : values) value = std::abs(value - median);
  return std::max(kNormal * median_of_copy(std::move(values)), kLeastDeviation * std::abs(median));
}

}  // namespace

std::optional<FoundSpike> watch_loss(const config::LossSpike& options, const StepRecord& record,
                                     LossHistory& history) {
  const double loss = record.result.loss;
  if (options.action == config::SpikeAction::off || !record.result.applied || !std::isfinite(loss))
    return std::nullopt;
  const auto window = static_cast<std::size_t>(options.window);
  std::vector<double>& recent = history.recent;
  if (recent.size() > window)  // the configuration has changed
    recent.erase(recent.begin(), recent.end() - static_cast<std::ptrdiff_t>(window));
  FoundSpike found{record.step, loss, 0, 0, recent.size(), 0};
  if (recent.size() >= std::min(window, kFewestLosses)) {
    found.median = median_of_copy(recent);
    const double deviation = deviation_of(recent, found.median);
    if (deviation > 0) found.z = (loss - found.median) / deviation;
  }
  if (recent.size() == window) recent.erase(recent.begin());
  recent.push_back(loss);
  const bool was_high = history.is_high;
  history.is_high = found.z > options.z;
  if (!history.is_high || was_high) return std::nullopt;
  found.num_spikes = ++history.num_spikes;
  return found;
}

void stop_at_spike(const config::LossSpike& options, const FoundSpike& spike,
                   const std::vector<std::uint64_t>& sample_ids) {
  if (options.action != config::SpikeAction::stop) return;
  throw Error(
      ErrorKind::numeric, "train",
      fmt::format(
          "the loss of step {} is {:.4g}, {:.1f} deviations above {:.4g}, the median of the "
          "{} before; its samples are {}",
          spike.step, spike.loss, spike.z, spike.median, spike.num_before,
          fmt::join(sample_ids, ", ")),
      "look at those samples (wmtp data inspect), or go on from the last checkpoint with a lower "
      "training.learning_rate or runtime.loss_spike.action: warn");
}

}  // namespace wmtp::run
