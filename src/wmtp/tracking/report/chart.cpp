#include "wmtp/tracking/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking {
namespace {

constexpr double kWidth = 360, kHeight = 216, kLeft = 58, kRight = 12, kTop = 10, kBottom = 38;
constexpr double kLargest = 1e300;  // beyond, differences would overflow
constexpr std::size_t kBuckets = 300, kMaxDots = 40;
constexpr std::size_t kNumColors = 8;
constexpr double kLeastMarkDistance = 4;  // of marks of saves, in pixels

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

bool drawable(double value) {
  return std::isfinite(value) && std::abs(value) <= kLargest;
}

struct Frame {
  Range x, y;
  double px(double value) const {
    return kLeft + (value - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight);
  }
  double py(double value) const {
    return kHeight - kBottom - (value - y.low) / (y.high - y.low) * (kHeight - kTop - kBottom);
  }
};

std::string open_svg(std::string_view title) {
  return fmt::format(
      "<svg class=\"chart\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "role=\"img\" aria-label=\"{2}\"><title>{2}</title>",
      kWidth, kHeight, escape_html(title));
}

std::string axes(const Frame& frame, std::string_view x_label) {
  std::string out = "<g class=\"axis\">";
  for (const double tick : nice_ticks(frame.y.low, frame.y.high)) {
    if (tick < frame.y.low || tick > frame.y.high) continue;
    const double y = frame.py(tick);
    out += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        kLeft, kWidth - kRight, y, y, kLeft - 6, y + 4, short_number(tick));
  }
  for (const double tick : nice_ticks(frame.x.low, frame.x.high)) {
    if (tick < frame.x.low || tick > frame.x.high) continue;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
                       frame.px(tick), kHeight - kBottom + 16, short_number(tick));
  }
  return out + fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text></g>",
                           (kLeft + kWidth - kRight) / 2, kHeight - 4, escape_html(x_label));
}

std::string curve_class(const Curve& curve) {
  return fmt::format("k{}{}", curve.color % kNumColors, curve.dashed ? " v" : "");
}

std::string draw(const Frame& frame, const Curve& curve) {
  std::string lines, points, dots;
  const std::string style = curve_class(curve);
  const Series shown = thinned(curve.points, kBuckets);
  auto end_line = [&] {
    if (!points.empty())
      lines += fmt::format(
          "<polyline class=\"{}\" fill=\"none\" stroke=\"currentColor\" points=\"{}\"/>", style,
          points);
    points.clear();
  };
  for (const SeriesPoint& point : shown) {
    if (!drawable(point.value)) {
      end_line();
      continue;
    }
    const double x = frame.px(static_cast<double>(point.step)), y = frame.py(point.value);
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x, y);
    if (shown.size() <= kMaxDots)
      dots += fmt::format(
          "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{}: {}</title>"
          "</circle>",
          style, x, y, point.step, short_number(point.value));
  }
  end_line();
  return lines + dots;
}

// The place of a mark on the page, in a drawing or as the key of a legend.
std::string mark_path(Mark::Kind kind, double x, double y) {
  if (kind == Mark::Kind::save) return fmt::format("M{:.1f},{:.1f} l3,5 l-6,0 Z", x, y - 5);
  return fmt::format("M{:.1f},{:.1f} l5,5 l-5,5 l-5,-5 Z", x, y - 5);
}

const char* name_of(Mark::Kind kind) {
  return kind == Mark::Kind::restart ? "restart" : kind == Mark::Kind::save ? "save" : "best";
}

std::string mark_class(const Mark& mark) {
  const std::string color = mark.color ? fmt::format(" m{}", *mark.color % kNumColors) : "";
  return fmt::format("mark {}{}", name_of(mark.kind), color);
}

std::string draw(const Frame& frame, const Mark& mark) {
  const double x = frame.px(static_cast<double>(mark.step));
  if (mark.kind == Mark::Kind::restart)
    return fmt::format(
        "<line class=\"{0}\" x1=\"{1:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.0f}\" y2=\"{3:.0f}\">"
        "<title>{4}</title></line>",
        mark_class(mark), x, kTop, kHeight - kBottom, escape_html(mark.text));
  const bool at_value = mark.value && drawable(*mark.value) && *mark.value >= frame.y.low &&
                        *mark.value <= frame.y.high;
  const double y = at_value                        ? frame.py(*mark.value)
                   : mark.kind == Mark::Kind::save ? kHeight - kBottom
                                                   : kTop;
  return fmt::format("<path class=\"{}\" d=\"{}\"><title>{}</title></path>", mark_class(mark),
                     mark_path(mark.kind, x, y), escape_html(mark.text));
}

// Those inside the frame; where saves stand close, not each of them.
std::vector<Mark> shown_marks(const Frame& frame, const std::vector<Mark>& marks) {
  std::vector<Mark> shown;
  double last_save = -kLeastMarkDistance;
  for (const Mark& mark : marks) {
    const auto at = static_cast<double>(mark.step);
    if (at < frame.x.low || at > frame.x.high) continue;
    if (mark.kind == Mark::Kind::save) {
      if (frame.px(at) - last_save < kLeastMarkDistance) continue;
      last_save = frame.px(at);
    }
    shown.push_back(mark);
  }
  return shown;
}

// Of restarts and saves one line for all; each best with its number.
std::string mark_legend(const std::vector<Mark>& marks) {
  std::string out;
  bool told[2] = {false, false};
  for (const Mark& mark : marks) {
    const bool is_best = mark.kind == Mark::Kind::best;
    if (!is_best && std::exchange(told[mark.kind == Mark::Kind::save ? 1 : 0], true)) continue;
    const std::string key =
        mark.kind == Mark::Kind::restart
            ? fmt::format("<line class=\"{}\" x1=\"12\" x2=\"12\" y1=\"0\" y2=\"12\"/>",
                          mark_class(mark))
            : fmt::format("<path class=\"{}\" d=\"{}\"/>", mark_class(mark),
                          mark_path(mark.kind, 12, mark.kind == Mark::Kind::save ? 9 : 6));
    out += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 24 12\" aria-hidden=\"true\">{}</svg>{}</li>", key,
        is_best ? escape_html(mark.text) : std::string(name_of(mark.kind)));
  }
  return out;
}

std::string legend(const std::vector<Curve>& curves, const std::vector<Mark>& marks) {
  std::string out = "<ul class=\"legend\">";
  for (const Curve& curve : curves)
    out += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 24 12\" aria-hidden=\"true\">"
        "<polyline class=\"{}\" fill=\"none\" stroke=\"currentColor\" points=\"0,6 "
        "24,6\"/></svg>{} <b>{}</b></li>",
        curve_class(curve), escape_html(curve.label), short_number(curve.points.back().value));
  return out + mark_legend(marks) + "</ul>";
}

}  // namespace

std::string to_svg(const LineChart& chart) {
  Frame frame;
  std::vector<Curve> curves;
  for (const Curve& curve : chart.curves) {
    for (const SeriesPoint& point : curve.points) {
      if (!drawable(point.value)) continue;
      frame.x.include(static_cast<double>(point.step));
      frame.y.include(point.value);
    }
    if (!curve.points.empty()) curves.push_back(curve);
  }
  if (frame.y.empty()) return "";
  frame.x.widen();
  frame.y.widen();
  const std::vector<Mark> marks = shown_marks(frame, chart.marks);
  std::string out = open_svg(chart.title) + axes(frame, chart.x_label);
  for (const Curve& curve : curves) out += draw(frame, curve);
  for (const Mark& mark : marks) out += draw(frame, mark);
  return out + "</svg>" + legend(curves, marks);
}

std::string to_svg(const Histogram& histogram) {
  if (histogram.counts.empty()) return "";
  Frame frame;
  frame.x.include(std::max(histogram.edges.front(), -kLargest));
  frame.x.include(std::min(histogram.edges.back(), kLargest));
  frame.y.include(0);
  for (const std::uint64_t count : histogram.counts) frame.y.include(static_cast<double>(count));
  frame.x.widen();
  frame.y.widen();
  frame.y.low = 0;
  std::string out =
      open_svg(fmt::format("histogram of {} at step {}", histogram.name, histogram.step)) +
      axes(frame, histogram.name) + "<g class=\"bars\">";
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double left = frame.px(std::clamp(histogram.edges[i], -kLargest, kLargest));
    const double right = frame.px(std::clamp(histogram.edges[i + 1], -kLargest, kLargest));
    const double top = frame.py(static_cast<double>(histogram.counts[i]));
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
        "<title>{} to {}: {}</title></rect>",
        left, top, std::max(0.5, right - left - 1), kHeight - kBottom - top,
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

}  // namespace wmtp::tracking
