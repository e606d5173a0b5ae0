#include "wmtp/tracking/report/x_axis.h"

#include <algorithm>
#include <cmath>

namespace wmtp::tracking {

const char* name_of(XAxis axis) {
  return axis == XAxis::step ? "steps" : axis == XAxis::tokens ? "tokens" : "time";
}

StepPlaces::StepPlaces(const RunData& run, XAxis axis) : axis_(axis) {
  constexpr double kMost = 9e15;  // whole numbers are exact up to here
  const auto add = [this](std::int64_t step, double place) {
    if (!(place >= 0 && place <= kMost)) return;
    const auto whole = static_cast<std::int64_t>(std::llround(place));
    if (places_.empty() || whole >= places_.back().place) places_.push_back({step, whole});
  };
  if (axis == XAxis::time)
    for (const SeriesPoint& point : run.time_s) add(point.step, point.value * 1e3);
  const Series* tokens = axis == XAxis::tokens ? run.find("train/tokens_seen") : nullptr;
  if (!tokens) return;
  if (tokens->front().step > 0) add(0, 0);
  for (const SeriesPoint& point : *tokens) add(point.step, point.value);
}

std::optional<std::int64_t> StepPlaces::of(std::int64_t step) const {
  if (axis_ == XAxis::step) return step;
  const auto after = std::lower_bound(places_.begin(), places_.end(), step,
                                      [](const Place& p, std::int64_t s) { return p.step < s; });
  if (after == places_.end()) return std::nullopt;
  if (after->step == step) return after->place;
  // Only tokens are not told of every step.
  if (axis_ == XAxis::time || after == places_.begin()) return std::nullopt;
  const Place before = *std::prev(after);
  const double share =
      static_cast<double>(step - before.step) / static_cast<double>(after->step - before.step);
  return before.place + std::llround(share * static_cast<double>(after->place - before.place));
}

Series StepPlaces::moved(const Series& points) const {
  Series out;
  for (const SeriesPoint& point : points)
    if (const auto place = of(point.step)) out.push_back({*place, point.value});
  return out;
}

AxisUnit unit_of(XAxis axis, std::int64_t last) {
  constexpr double kSecond = 1e3, kMinute = 60 * kSecond, kHour = 60 * kMinute;
  if (axis != XAxis::time) return {1, axis == XAxis::step ? "step" : "tokens"};
  const auto longest = static_cast<double>(last);
  if (longest < 2 * kMinute) return {kSecond, "time, s"};
  return longest < 2 * kHour ? AxisUnit{kMinute, "time, min"} : AxisUnit{kHour, "time, h"};
}

}  // namespace wmtp::tracking
