#include "wmtp/tracking/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/chart.h"
#include "wmtp/tracking/report/curves.h"
#include "wmtp/tracking/report/findings_html.h"
#include "wmtp/tracking/report/overview.h"
#include "wmtp/tracking/report/profile_html.h"
#include "wmtp/tracking/report/sample_html.h"
#include "wmtp/tracking/report/style.h"

namespace wmtp::tracking {
namespace {

// ` id="..."`, or nothing.
std::string id_of(std::string_view anchor) {
  return anchor.empty() ? "" : fmt::format(" id=\"{}\"", anchor);
}

std::string panel(std::string_view caption, const std::string& drawing,
                  std::string_view anchor = {}) {
  if (drawing.empty()) return "";
  return fmt::format("<figure{}><figcaption>{}</figcaption>{}</figure>\n", id_of(anchor),
                     escape_html(caption), drawing);
}

std::string section(std::string_view title, const std::string& panels,
                    std::string_view anchor = {}) {
  if (panels.empty()) return "";
  return fmt::format("<h2{}>{}</h2>\n<div class=\"grid\">{}</div>\n", id_of(anchor),
                     escape_html(title), panels);
}

// Numbers stay in one line and scroll; long texts break.
enum class Cells { numbers, texts };

std::string table_html(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows, Cells cells) {
  std::string out = fmt::format("<div class=\"scroll\"><table class=\"{}\"><thead><tr>",
                                cells == Cells::numbers ? "numbers" : "texts");
  for (const std::string& cell : header) out += "<th>" + escape_html(cell) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += "<td>" + escape_html(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// One run: a grid of all its drawings. Several: laid over each other, a row for each group.
std::string curves_html(const std::vector<RunData>& runs) {
  std::string out, all;
  for (const CurveGroup& group : curve_groups()) {
    const std::string anchor = curve_anchor(group.title);
    if (runs.size() == 1) {
      all += panel(group.title, to_svg(chart_of(group, runs[0])), anchor);
      continue;
    }
    std::string row;
    for (const LineChart& chart : overlays_of(group, runs))
      row += panel(chart.title, to_svg(chart));
    out += section(group.title, row, anchor);
  }
  return runs.size() == 1 ? section("Curves", all) : out;
}

std::string all_findings_html(const std::vector<RunData>& runs) {
  std::string out = "<h2 id=\"findings\">Findings</h2>\n";
  for (const RunData& run : runs) {
    if (runs.size() > 1) out += "<h3>" + escape_html(run.name) + "</h3>\n";
    out += findings_html(run);
  }
  return out;
}

std::string histograms_html(const std::vector<RunData>& runs) {
  std::string panels;
  for (const RunData& run : runs) {
    std::map<std::string, const Histogram*> latest;
    for (const Histogram& histogram : run.histograms) latest[histogram.name] = &histogram;
    for (const auto& [name, histogram] : latest)
      panels += panel(fmt::format("{}{} at step {}", runs.size() == 1 ? "" : run.name + ": ", name,
                                  histogram->step),
                      to_svg(*histogram));
  }
  return section("Histograms", panels);
}

std::string samples_html(const std::vector<RunData>& runs) {
  std::string out;
  for (const RunData& run : runs) {
    if (run.samples.empty()) continue;
    // How it began and where it stands.
    std::vector<const DecodedSample*> shown{&run.samples.front()};
    if (run.samples.size() > 1) shown.push_back(&run.samples.back());
    for (const DecodedSample* sample : shown)
      out += fmt::format("<h3>{}, {} at step {}</h3>\n{}\n", escape_html(run.name),
                         escape_html(sample->stage), sample->step, sample_html(*sample));
  }
  return out.empty() ? "" : "<h2>Samples</h2>\n" + out;
}

std::string list_html(const std::vector<std::string>& lines) {
  std::string out = "<ul>";
  for (const std::string& line : lines) out += "<li>" + escape_html(line) + "</li>";
  return out + "</ul>\n";
}

std::string rows_html(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : pairs) rows.push_back({key, value});
  return table_html({"", ""}, rows, Cells::texts);
}

std::string details(std::string_view title, const std::string& body, bool open) {
  return fmt::format("<details{}><summary>{}</summary>{}</details>\n", open ? " open=\"open\"" : "",
                     escape_html(title), body);
}

std::string run_html(const RunData& run) {
  std::string out = fmt::format("<h3>{}</h3>\n<p class=\"note\">{}</p>\n", escape_html(run.name),
                                escape_html(run.folder.string()));
  if (const auto labels = run.labels.shown(); !labels.empty())
    out += details("Labels", rows_html(labels), true);
  if (!run.restarts.empty()) {
    std::vector<std::string> lines;
    for (const std::int64_t step : run.restarts)
      lines.push_back(fmt::format("continued from step {}", step));
    out += details(fmt::format("Restarts: {}", lines.size()), list_html(lines), true);
  }
  if (!run.events.empty()) {
    std::vector<std::string> lines;
    for (const NotedEvent& event : run.events)
      lines.push_back(fmt::format("step {}: {}", event.step, event.text));
    out += details(fmt::format("Events: {}", lines.size()), list_html(lines), true);
  }
  if (!run.notices.empty())
    out += details(fmt::format("Notices: {}", run.notices.size()), list_html(run.notices), true);
  if (run.profile) out += details("Profile", profile_html(*run.profile), true);
  if (!run.paths.empty()) out += details("Written", rows_html(run.paths), true);
  if (!run.environment.empty()) out += details("Environment", rows_html(run.environment), false);
  if (!run.config_yaml.empty())
    out += details("Configuration", "<pre>" + escape_html(run.config_yaml) + "</pre>", false);
  return out;
}

std::string differences_html(const std::vector<RunData>& runs) {
  std::vector<std::string> header{"key"};
  for (const RunData& run : runs) header.push_back(run.name);
  const auto rows = config_differences(runs);
  return "<h2>Differences of the configurations</h2>\n" +
         (rows.empty() ? "<p class=\"note\">none</p>\n" : table_html(header, rows, Cells::texts));
}

}  // namespace

std::string report_page(const std::vector<RunData>& runs) {
  std::string names;
  for (const RunData& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
      "<meta name=\"color-scheme\" content=\"light dark\"/><title>wmtp: {0}</title>"
      "<style>{1}</style></head>\n<body><h1>wmtp: {0}</h1>\n",
      escape_html(names), kPageStyle);
  std::vector<std::vector<std::string>> rows;
  for (const RunData& run : runs) rows.push_back(overview_cells(run));
  out += all_findings_html(runs) + "<h2>Overview</h2>\n" +
         table_html(overview_header(), rows, Cells::numbers);
  if (runs.size() > 1) out += differences_html(runs);
  out += curves_html(runs) + histograms_html(runs) + samples_html(runs) + "<h2>Runs</h2>\n";
  for (const RunData& run : runs) out += run_html(run);
  return out + "</body></html>\n";
}

}  // namespace wmtp::tracking
