#include "wmtp/tracking/report/chart_marks.h"

#include <fmt/format.h>

#include <utility>

#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking {
namespace {

constexpr double kLeastMarkDistance = 4;  // of marks of saves, in pixels

// The place of a mark on the page, in a drawing or as the key of a legend.
std::string mark_path(Mark::Kind kind, double x, double y) {
  if (kind == Mark::Kind::save) return fmt::format("M{:.1f},{:.1f} l3,5 l-6,0 Z", x, y - 5);
  return fmt::format("M{:.1f},{:.1f} l5,5 l-5,5 l-5,-5 Z", x, y - 5);
}

const char* name_of(Mark::Kind kind) {
  return kind == Mark::Kind::restart ? "restart" : kind == Mark::Kind::save ? "save" : "best";
}

std::string mark_class(const Mark& mark) {
  const std::string color = mark.color ? fmt::format(" m{}", *mark.color % kNumChartColors) : "";
  return fmt::format("mark {}{}", name_of(mark.kind), color);
}

}  // namespace

std::string draw_mark(const ChartFrame& frame, const Mark& mark) {
  const double x = frame.px(static_cast<double>(mark.step));
  if (mark.kind == Mark::Kind::restart)
    return fmt::format(
        "<line class=\"{0}\" x1=\"{1:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.0f}\" y2=\"{3:.0f}\">"
        "<title>{4}</title></line>",
        mark_class(mark), x, kChartTop, kChartHeight - kChartBottom, escape_html(mark.text));
  const bool at_value = mark.value && frame.draws(*mark.value) && *mark.value >= frame.y.low &&
                        *mark.value <= frame.y.high;
  const double y = at_value                        ? frame.py(*mark.value)
                   : mark.kind == Mark::Kind::save ? kChartHeight - kChartBottom
                                                   : kChartTop;
  return fmt::format("<path class=\"{}\" d=\"{}\"><title>{}</title></path>", mark_class(mark),
                     mark_path(mark.kind, x, y), escape_html(mark.text));
}

std::vector<Mark> shown_marks(const ChartFrame& frame, const std::vector<Mark>& marks) {
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

}  // namespace wmtp::tracking
