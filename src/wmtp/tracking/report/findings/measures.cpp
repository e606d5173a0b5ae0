#include "wmtp/tracking/report/findings/measures.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace wmtp::tracking {

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> finite_values(const Series* points) {
  std::vector<double> values;
  if (!points) return values;
  for (const SeriesPoint& point : *points)
    if (std::isfinite(point.value)) values.push_back(point.value);
  return values;
}

std::vector<double> plain_losses(const RunData& run) {
  const Series* unweighted = run.find("train/unweighted_ce_loss");
  return finite_values(unweighted ? unweighted : run.find("train/loss"));
}

std::vector<double> settled_values(const Series* points) {
  std::vector<double> values = finite_values(points);
  if (!values.empty()) values.erase(values.begin());
  return values;
}

std::vector<double> last_quarter(const std::vector<double>& values) {
  const auto size = static_cast<std::ptrdiff_t>((values.size() + 3) / 4);
  return {values.end() - size, values.end()};
}

double step_noise(const std::vector<double>& values) {
  std::vector<double> distances;
  for (std::size_t i = 1; i < values.size(); ++i)
    distances.push_back(std::abs(values[i] - values[i - 1]));
  return 1.4826 * median(std::move(distances)).value_or(0) / std::sqrt(2.0);
}

std::optional<double> environment_number(const RunData& run, std::string_view key) {
  for (const auto& [name, text] : run.environment) {
    if (name != key) continue;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value))
      return value;
  }
  return std::nullopt;
}

}  // namespace wmtp::tracking
