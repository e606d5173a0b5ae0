#include "wmtp/cli/pages/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "wmtp/cli/pages/page.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/chart.h"

namespace wmtp::cli::pages {
namespace {

using tracking::short_number;

constexpr double kWidth = 360, kHeight = 216, kLeft = 58, kRight = 12, kTop = 10, kBottom = 38;
constexpr std::size_t kNumColors = 8;

struct Axes {
  double left = 0, right = 1, top = 1;
  double px(double at) const {
    return kLeft + (at - left) / (right - left) * (kWidth - kLeft - kRight);
  }
  double py(double value) const {
    return kHeight - kBottom - value / top * (kHeight - kTop - kBottom);
  }
};

std::uint64_t sum_of(const Column& column) {
  return std::accumulate(column.parts.begin(), column.parts.end(), std::uint64_t{0});
}

Axes axes_of(const ColumnChart& chart) {
  Axes axes{chart.columns.front().left, chart.columns.back().right, 0};
  for (const Column& column : chart.columns)
    axes.top = std::max(axes.top, static_cast<double>(sum_of(column)));
  if (chart.as_shares || axes.top == 0) axes.top = 1;
  if (axes.right <= axes.left) axes.right = axes.left + 1;
  return axes;
}

std::string draw(const Axes& axes, const ColumnChart& chart) {
  std::string out = "<g class=\"axis\">";
  for (const double tick : tracking::nice_ticks(0, axes.top)) {
    if (!chart.as_shares && tick != std::floor(tick)) continue;  // there are no halves of a count
    const std::string label =
        chart.as_shares ? fmt::format("{:.0f} %", 100 * tick) : short_number(tick);
    out += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        kLeft, kWidth - kRight, axes.py(tick), axes.py(tick), kLeft - 6, axes.py(tick) + 4, label);
  }
  for (const double tick : tracking::nice_ticks(axes.left, axes.right))
    if (tick >= axes.left && tick <= axes.right)
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
                         axes.px(tick), kHeight - kBottom + 16, short_number(tick));
  return out + fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text></g>",
                           (kLeft + kWidth - kRight) / 2, kHeight - 4, page_text(chart.x_label));
}

std::string draw(const Axes& axes, const ColumnChart& chart, const Column& column) {
  const auto sum = static_cast<double>(sum_of(column));
  const double unit = !chart.as_shares ? 1 : sum > 0 ? 1 / sum : 0;
  const double left = axes.px(column.left);
  const double width = std::max(0.5, axes.px(column.right) - left - 1);
  std::string out;
  double below = 0;
  for (std::size_t kind = 0; kind < column.parts.size(); ++kind) {
    if (column.parts[kind] == 0) continue;
    const double above = below + static_cast<double>(column.parts[kind]) * unit;
    const std::string name = chart.kinds.size() > 1 ? " " + chart.kinds[kind] : "";
    out += fmt::format(
        "<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
        "<title>{}:{} {}</title></rect>",
        kind % kNumColors, left, axes.py(above), width, axes.py(below) - axes.py(above),
        page_text(column.text), page_text(name), column.parts[kind]);
    below = above;
  }
  return out;
}

std::string legend_item(const std::string& color_class, const std::string& name,
                        const std::string& number) {
  return fmt::format("<li><span class=\"dot {}\"></span>{} <b>{}</b></li>", color_class,
                     page_text(name), page_text(number));
}

}  // namespace

std::string to_svg(const ColumnChart& chart) {
  if (chart.columns.empty()) return "";
  const Axes axes = axes_of(chart);
  std::string out = fmt::format(
      "<svg class=\"chart\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "role=\"img\" aria-label=\"{2}\"><title>{2}</title>{3}",
      kWidth, kHeight, page_text(chart.title), draw(axes, chart));
  for (const Column& column : chart.columns) out += draw(axes, chart, column);
  out += "</svg>";
  if (chart.kinds.size() < 2) return out;
  out += "<ul class=\"legend\">";
  for (std::size_t kind = 0; kind < chart.kinds.size(); ++kind) {
    std::uint64_t count = 0;
    for (const Column& column : chart.columns) count += column.parts[kind];
    out += legend_item(fmt::format("f{}", kind % kNumColors), chart.kinds[kind],
                       std::to_string(count));
  }
  return out + "</ul>";
}

std::string share_bar(const std::vector<Share>& shares) {
  std::uint64_t whole = 0;
  for (const Share& share : shares) whole += share.count;
  if (whole == 0) return "";
  std::string bar, legend;
  for (const Share& share : shares) {
    const std::string number =
        fmt::format("{} ({:.1f} %)", share.count,
                    100.0 * static_cast<double>(share.count) / static_cast<double>(whole));
    if (share.count > 0)
      bar += fmt::format("<span class=\"{}\" style=\"flex:{}\" title=\"{}: {}\"></span>",
                         share.color_class, share.count, page_text(share.name), number);
    legend += legend_item(share.color_class, share.name, number);
  }
  return "<div class=\"share\">" + bar + "</div><ul class=\"legend\">" + legend + "</ul>";
}

}  // namespace wmtp::cli::pages
