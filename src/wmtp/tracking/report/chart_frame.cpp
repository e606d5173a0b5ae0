#include "wmtp/tracking/report/chart_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/chart.h"

namespace wmtp::tracking {
namespace {

// 20k, 1.5M: what would be 2e+04 in short_number.
std::string axis_number(double value) {
  struct Unit {
    double size;
    const char* sign;
  };
  constexpr std::array<Unit, 4> kUnits{{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  if (std::abs(value) >= 1e4 && std::abs(value) < 1e15)
    for (const Unit& unit : kUnits)
      if (std::abs(value) >= unit.size) return short_number(value / unit.size) + unit.sign;
  return short_number(value);
}

}  // namespace

std::string open_chart(std::string_view title) {
  return fmt::format(
      "<svg class=\"chart\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "role=\"img\" aria-label=\"{2}\"><title>{2}</title>",
      kChartWidth, kChartHeight, escape_html(title));
}

std::string chart_axes(const ChartFrame& frame, std::string_view x_label) {
  std::string out = "<g class=\"axis\">";
  for (const double tick :
       frame.log_y ? log_ticks(frame.y.low, frame.y.high) : nice_ticks(frame.y.low, frame.y.high)) {
    if (tick < frame.y.low || tick > frame.y.high) continue;
    const double y = frame.py(tick);
    out += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        kChartLeft, kChartWidth - kChartRight, y, y, kChartLeft - 6, y + 4, axis_number(tick));
  }
  for (const double tick : nice_ticks(frame.x.low / frame.x_unit, frame.x.high / frame.x_unit)) {
    const double x = tick * frame.x_unit;
    if (x < frame.x.low || x > frame.x.high) continue;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
                       frame.px(x), kChartHeight - kChartBottom + 16, axis_number(tick));
  }
  return out + fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text></g>",
                           (kChartLeft + kChartWidth - kChartRight) / 2, kChartHeight - 4,
                           escape_html(x_label));
}

std::vector<double> nice_ticks(double low, double high) {
  const double rough = (high - low) / 5;
  if (!(rough > 0)) return {low};
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double unit = power * 10;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) {
      unit = factor * power;
      break;
    }
  std::vector<double> ticks;
  const double first = std::ceil(low / unit);
  for (int i = 0; i < 8; ++i) {
    const double tick = (first + i) * unit + 0.0;  // no -0
    if (tick > high + unit * 1e-9) break;
    ticks.push_back(tick);
  }
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  std::vector<double> ticks;
  for (double power = first; power <= last; ++power)
    for (const double factor : {1.0, 2.0, 5.0})
      if (const double tick = factor * std::pow(10.0, power); tick >= low && tick <= high)
        ticks.push_back(tick);
  if (ticks.size() < 4 && high < 10 * low) return nice_ticks(low, high);  // less than a decade
  if (ticks.size() <= 8) return ticks;
  ticks.clear();
  const double stride = std::ceil((last - first) / 8);
  for (double power = first; power <= last; power += stride)
    if (const double tick = std::pow(10.0, power); tick >= low && tick <= high)
      ticks.push_back(tick);
  return ticks;
}

}  // namespace wmtp::tracking
