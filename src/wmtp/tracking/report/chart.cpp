#include "wmtp/tracking/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/chart_frame.h"
#include "wmtp/tracking/report/chart_marks.h"

namespace wmtp::tracking {
namespace {

// Two pixels an interval, the extremes of each.
constexpr std::size_t kBuckets = 150, kSmoothBuckets = 75, kMaxDots = 40;

std::string curve_class(const Curve& curve) {
  return fmt::format("k{}{}", curve.color % kNumChartColors, curve.dashed ? " v" : "");
}

std::string dot(const ChartFrame& frame, const SeriesPoint& point, const std::string& style) {
  return fmt::format(
      "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{}: {}</title></circle>",
      style, frame.px(static_cast<double>(point.step)), frame.py(point.value),
      short_number(static_cast<double>(point.step) / frame.x_unit), short_number(point.value));
}

// With gaps where a value cannot be drawn.
std::string lines(const ChartFrame& frame, const Series& shown, const std::string& style) {
  std::string out, points;
  auto end_line = [&] {
    if (!points.empty())
      out += fmt::format(
          "<polyline class=\"{}\" fill=\"none\" stroke=\"currentColor\" points=\"{}\"/>", style,
          points);
    points.clear();
  };
  for (const SeriesPoint& point : shown) {
    if (!frame.draws(point.value)) {
      end_line();
      continue;
    }
    // A mean is inside but for its rounding, and for values that a logarithmic axis leaves out.
    const double y = frame.py(std::clamp(point.value, frame.y.low, frame.y.high));
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ",
                          frame.px(static_cast<double>(point.step)), y);
  }
  end_line();
  return out;
}

std::string draw(const ChartFrame& frame, const Curve& curve, bool has_dots) {
  const std::string style = curve_class(curve);
  const Series shown = thinned(curve.points, kBuckets);
  std::string raw = lines(frame, shown, style);
  if (shown.size() == 1 || (has_dots && shown.size() <= kMaxDots))
    for (const SeriesPoint& point : shown)
      if (frame.draws(point.value)) raw += dot(frame, point, style);
  if (curve.smoothed.empty()) return raw;
  return fmt::format("<g class=\"raw\">{}</g><g class=\"smooth\">{}</g>", raw,
                     lines(frame, thinned(curve.smoothed, kSmoothBuckets), style));
}

ChartFrame frame_of(const LineChart& chart) {
  ChartFrame frame{{}, {}, chart.x_unit, chart.log_y};
  for (const Curve& curve : chart.curves)
    for (const SeriesPoint& point : curve.points) {
      if (!frame.draws(point.value)) continue;
      frame.x.include(static_cast<double>(point.step));
      frame.y.include(point.value);
    }
  if (frame.y.empty()) return frame;
  frame.x.widen();
  frame.y.widen();
  return frame;
}

}  // namespace

std::string chart_drawing(const LineChart& chart) {
  const ChartFrame frame = frame_of(chart);
  if (frame.y.empty()) return "";
  std::string out = open_chart(chart.title) + chart_axes(frame, chart.x_label);
  for (const Curve& curve : chart.curves) out += draw(frame, curve, chart.dots);
  for (const Mark& mark : shown_marks(frame, chart.marks)) out += draw_mark(frame, mark);
  return out + "</svg>";
}

std::string chart_legend(const LineChart& chart) {
  const ChartFrame frame = frame_of(chart);
  if (frame.y.empty()) return "";
  std::string out = "<ul class=\"legend\">";
  for (const Curve& curve : chart.curves)
    if (!curve.points.empty())
      out += fmt::format(
          "<li><svg class=\"key\" viewBox=\"0 0 24 12\" aria-hidden=\"true\">"
          "<polyline class=\"{}\" fill=\"none\" stroke=\"currentColor\" points=\"0,6 "
          "24,6\"/></svg>{} <b>{}</b></li>",
          curve_class(curve), escape_html(curve.label), short_number(curve.points.back().value));
  return out + mark_legend(shown_marks(frame, chart.marks)) + "</ul>";
}

std::string to_svg(const LineChart& chart) {
  return chart_drawing(chart) + chart_legend(chart);
}

std::string to_svg(const Histogram& histogram) {
  if (histogram.counts.empty()) return "";
  ChartFrame frame;
  frame.x.include(std::max(histogram.edges.front(), -kLargestDrawn));
  frame.x.include(std::min(histogram.edges.back(), kLargestDrawn));
  frame.y.include(0);
  for (const std::uint64_t count : histogram.counts) frame.y.include(static_cast<double>(count));
  frame.x.widen();
  frame.y.widen();
  frame.y.low = 0;
  std::string out =
      open_chart(fmt::format("histogram of {} at step {}", histogram.name, histogram.step)) +
      chart_axes(frame, histogram.name) + "<g class=\"bars\">";
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double left = frame.px(std::clamp(histogram.edges[i], -kLargestDrawn, kLargestDrawn));
    const double right =
        frame.px(std::clamp(histogram.edges[i + 1], -kLargestDrawn, kLargestDrawn));
    const double top = frame.py(static_cast<double>(histogram.counts[i]));
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
        "<title>{} to {}: {}</title></rect>",
        left, top, std::max(0.5, right - left - 1), kChartHeight - kChartBottom - top,
        short_number(histogram.edges[i]), short_number(histogram.edges[i + 1]),
        histogram.counts[i]);
  }
  return out + "</g></svg>";
}

Series thinned(const Series& points, std::size_t buckets) {
  if (points.size() <= 2 * buckets) return points;
  Series out;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const std::size_t begin = bucket * points.size() / buckets;
    const std::size_t end = (bucket + 1) * points.size() / buckets;
    std::size_t low = begin, high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(points[low].value <= points[i].value)) low = i;
      if (!(points[high].value >= points[i].value)) high = i;
    }
    out.push_back(points[std::min(low, high)]);
    if (low != high) out.push_back(points[std::max(low, high)]);
  }
  return out;
}

Series running_mean(const Series& points) {
  const std::size_t reach = std::max<std::size_t>(2, points.size() / 40);
  std::vector<double> sums{0}, counts{0};
  for (const SeriesPoint& point : points) {
    const bool counted = std::isfinite(point.value);
    sums.push_back(sums.back() + (counted ? point.value : 0));
    counts.push_back(counts.back() + (counted ? 1 : 0));
  }
  Series out = points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t near = std::min({reach, i, points.size() - 1 - i});
    const double count = counts[i + near + 1] - counts[i - near];
    if (std::isfinite(points[i].value))
      out[i].value = (sums[i + near + 1] - sums[i - near]) / count;
  }
  return out;
}

}  // namespace wmtp::tracking
