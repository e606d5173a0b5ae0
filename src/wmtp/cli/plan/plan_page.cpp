// The plan as one page: facts, the memory of a rank drawn for each recompute level, the tables.
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/cli/plan/plan_result.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/style.h"

namespace wmtp::cli {
namespace {

using tracking::escape_html;

constexpr std::size_t kNumPartColors = 8;  // of the page's style
// As wide as the drawings of a report, so that a telephone shows their text in its own size.
constexpr double kBarsWidth = 360, kBarHeight = 22, kRowHeight = 34, kLabelWidth = 60;

// Parts of all levels by name, so that each has one colour.
std::vector<std::string> device_parts(const std::vector<const run::Choice*>& levels) {
  std::vector<std::string> names;
  for (const run::Choice* level : levels)
    for (const auto& row : level->run.plan.memory.rows)
      if (!row.on_host && std::ranges::find(names, row.what) == names.end())
        names.push_back(row.what);
  return names;
}

std::string color_of(std::size_t part) {
  return fmt::format("var(--c{})", part % kNumPartColors);
}

std::string bar(const run::SizedRun& run, const std::vector<std::string>& parts, double y,
                double pixels_per_byte) {
  std::string svg;
  double x = kLabelWidth;
  for (const auto& row : run.plan.memory.rows) {
    if (row.on_host) continue;
    const double width = static_cast<double>(row.bytes) * pixels_per_byte;
    const auto part = static_cast<std::size_t>(std::ranges::find(parts, row.what) - parts.begin());
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" "
        "style=\"fill:{}\"><title>{}: {:.2f} GiB</title></rect>",
        x, y, width, kBarHeight, color_of(part), escape_html(row.what), as_gib(row.bytes));
    x += width;
  }
  return svg;
}

std::string legend(const std::vector<std::string>& parts) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t p = 0; p < parts.size(); ++p)
    html += fmt::format("<li><span class=\"key\" style=\"background:{}\"></span>{}</li>",
                        color_of(p), escape_html(parts[p]));
  return html + "</ul>";
}

// The line is what a rank has; the bars are without the part for the allocator.
std::string memory_bars(const PlanResult& result) {
  std::vector<const run::Choice*> levels;
  std::int64_t most = result.run.limit_bytes;
  for (const run::Choice& one : result.choices) {
    if (one.group != "recompute") continue;
    levels.push_back(&one);
    most = std::max(most, one.run.plan.memory.total_bytes());
  }
  const std::vector<std::string> parts = device_parts(levels);
  const double scale =
      (kBarsWidth - kLabelWidth - 10) / static_cast<double>(std::max<std::int64_t>(most, 1));
  const double height = kRowHeight * static_cast<double>(levels.size()) + 24;
  std::string svg = fmt::format(
      "<figure><figcaption>Memory of a rank by recompute level</figcaption><svg class=\"chart\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
      "aria-label=\"memory of a rank by recompute level\"><g class=\"axis\">",
      kBarsWidth, height);
  for (std::size_t i = 0; i < levels.size(); ++i)
    svg += fmt::format("<text x=\"0\" y=\"{:.1f}\">{}</text>",
                       kRowHeight * static_cast<double>(i) + 16, escape_html(levels[i]->name));
  const double limit = kLabelWidth + static_cast<double>(result.run.limit_bytes) * scale;
  svg += fmt::format(
      "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"{2}\">{3:.1f} GiB there</text></g>", limit,
      height - 6, limit < kBarsWidth / 2 ? "start" : "end", as_gib(result.run.limit_bytes));
  for (std::size_t i = 0; i < levels.size(); ++i)
    svg += bar(levels[i]->run, parts, kRowHeight * static_cast<double>(i), scale);
  svg += fmt::format(
      "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.1f}\"/></svg>", limit,
      height - 20);
  return svg + legend(parts) + "</figure>\n";
}

std::string html_of_table(const ShownTable& table) {
  std::string html = fmt::format("<h2>{}</h2><div class=\"scroll\"><table class=\"numbers\"><tr>",
                                 escape_html(table.title));
  for (const Column& column : table.columns)
    html += fmt::format("<th>{}</th>", escape_html(column.name));
  html += "</tr>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", escape_html(cell));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace

std::string plan_page(const PlanResult& result) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0}</title><style>{1}</style></head><body>"
      "<h1>{0}</h1>\n<ul>",
      escape_html(fmt::format("Plan of {} on {} x {}", result.run.plan.base_model,
                              result.run.world(), result.device_title)),
      tracking::kPageStyle);
  for (const std::string& line : plan_facts(result))
    html += fmt::format("<li>{}</li>\n", escape_html(line));
  html += "</ul>\n" + memory_bars(result);
  for (const ShownTable& table : plan_tables(result)) html += html_of_table(table);
  return html + "</body></html>\n";
}

}  // namespace wmtp::cli
