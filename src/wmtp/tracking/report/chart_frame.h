// Where things are in a drawing: its size, its ranges, its axes.
#pragma once
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

namespace wmtp::tracking {

inline constexpr double kChartWidth = 360, kChartHeight = 216;
inline constexpr double kChartLeft = 58, kChartRight = 12, kChartTop = 10, kChartBottom = 38;
inline constexpr double kLargestDrawn = 1e300;  // beyond, differences would overflow

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool empty() const { return low > high; }
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // A constant still needs an axis around it.
  void widen() {
    if (low < high) return;
    const double pad = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= pad;
    high += pad;
  }
};

struct ChartFrame {
  Range x, y;
  double x_unit = 1;   // how much of x is 1 on its axis
  bool log_y = false;  // then y is above 0

  bool draws(double value) const {
    return std::isfinite(value) && std::abs(value) <= kLargestDrawn && (!log_y || value > 0);
  }
  double px(double value) const {
    return kChartLeft +
           (value - x.low) / (x.high - x.low) * (kChartWidth - kChartLeft - kChartRight);
  }
  double py(double value) const {
    const double share =
        log_y ? (std::log(value) - std::log(y.low)) / (std::log(y.high) - std::log(y.low))
              : (value - y.low) / (y.high - y.low);
    return kChartHeight - kChartBottom - share * (kChartHeight - kChartTop - kChartBottom);
  }
};

std::string open_chart(std::string_view title);
std::string chart_axes(const ChartFrame& frame, std::string_view x_label);

}  // namespace wmtp::tracking
