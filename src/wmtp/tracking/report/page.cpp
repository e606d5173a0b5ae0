#include "wmtp/tracking/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/chart.h"
#include "wmtp/tracking/report/curves_html.h"
#include "wmtp/tracking/report/data_facts.h"
#include "wmtp/tracking/report/findings_html.h"
#include "wmtp/tracking/report/html_parts.h"
#include "wmtp/tracking/report/overview.h"
#include "wmtp/tracking/report/profile_html.h"
#include "wmtp/tracking/report/sample_html.h"
#include "wmtp/tracking/report/style.h"

namespace wmtp::tracking {
namespace {

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
      panels += panel_html(fmt::format("{}{} at step {}", runs.size() == 1 ? "" : run.name + ": ",
                                       name, histogram->step),
                           to_svg(*histogram));
  }
  return section_html("Histograms", panels);
}

std::string data_html(const std::vector<RunData>& runs) {
  std::vector<std::vector<std::string>> rows;
  for (const RunData& run : runs)
    for (std::vector<std::string>& row : data_cells(run)) {
      if (runs.size() > 1) row[0] = run.name + ": " + row[0];
      rows.push_back(std::move(row));
    }
  return rows.empty() ? "" : "<h2>Data</h2>\n" + table_html(data_header(), rows, Cells::numbers);
}

std::string links_html(const std::vector<RunLink>& links) {
  std::string out = "<ul>";
  for (const RunLink& link : links) {
    const std::string text = escape_html(link.text);
    out += fmt::format("<li>{}: {}</li>", escape_html(link.name),
                       link.url.empty() ? "<code>" + text + "</code>"
                                        : fmt::format("<a href=\"{}\" rel=\"noreferrer\">{}</a>",
                                                      escape_html(link.url), text));
  }
  return out + "</ul>\n";
}

std::string run_html(const RunData& run) {
  std::string out = fmt::format("<h3>{}</h3>\n<p class=\"note\">{}</p>\n", escape_html(run.name),
                                escape_html(run.folder.string()));
  if (const auto labels = run.labels.shown(); !labels.empty())
    out += details_html("Labels", pairs_html(labels), true);
  if (!run.restarts.empty()) {
    std::vector<std::string> lines;
    for (const std::int64_t step : run.restarts)
      lines.push_back(fmt::format("continued from step {}", step));
    out += details_html(fmt::format("Restarts: {}", lines.size()), list_html(lines), true);
  }
  if (!run.events.empty()) {
    std::vector<std::string> lines;
    for (const NotedEvent& event : run.events)
      lines.push_back(fmt::format("step {}: {}", event.step, event.text));
    out += details_html(fmt::format("Events: {}", lines.size()), list_html(lines), true);
  }
  if (!run.notices.empty())
    out +=
        details_html(fmt::format("Notices: {}", run.notices.size()), list_html(run.notices), true);
  if (!run.links.empty()) out += details_html("Elsewhere", links_html(run.links), true);
  if (run.profile) out += details_html("Profile", profile_html(*run.profile), true);
  if (!run.paths.empty()) out += details_html("Written", pairs_html(run.paths), true);
  if (!run.environment.empty())
    out += details_html("Environment", pairs_html(run.environment), false);
  if (!run.config_yaml.empty())
    out += details_html("Configuration", "<pre>" + escape_html(run.config_yaml) + "</pre>", false);
  return out;
}

std::string differences_html(const std::vector<RunData>& runs) {
  std::vector<std::string> header{"key"};
  for (const RunData& run : runs) header.push_back(run.name);
  const auto rows = config_differences(runs);
  return "<h2>Differences of the configurations</h2>\n" +
         (rows.empty() ? "<p class=\"note\">none</p>\n" : table_html(header, rows, Cells::texts));
}

std::string head_html(const std::string& title, const PageOptions& options) {
  const std::string refresh =
      options.refresh_s
          ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\"/>", *options.refresh_s)
          : "";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\"/>{}"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
      "<meta name=\"color-scheme\" content=\"light dark\"/><link rel=\"icon\" href=\"data:,\"/>"
      "<title>{}</title><style>{}</style></head>\n",
      kPagePolicy, refresh, title, kPageStyle);
}

std::string notices_html(const std::vector<std::string>& notices) {
  std::string out;
  for (const std::string& notice : notices)
    out += "<p class=\"notice\">" + escape_html(notice) + "</p>\n";
  return out;
}

}  // namespace

std::string report_page(const std::vector<RunData>& runs, const PageOptions& options) {
  std::string names;
  for (const RunData& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  const std::string title = "wmtp: " + escape_html(names);
  std::vector<std::vector<std::string>> rows;
  for (const RunData& run : runs) rows.push_back(overview_cells(run));
  std::string out = head_html(title, options) + "<body><h1>" + title + "</h1>\n" +
                    notices_html(options.notices) + all_findings_html(runs) +
                    "<h2>Overview</h2>\n" + table_html(overview_header(), rows, Cells::numbers);
  if (runs.size() > 1) out += differences_html(runs);
  out += curves_html(runs) + histograms_html(runs) + data_html(runs) + samples_html(runs) +
         "<h2>Runs</h2>\n";
  for (const RunData& run : runs) out += run_html(run);
  return out + "</body></html>\n";
}

std::string waiting_page(const std::vector<std::string>& notices, int refresh_s) {
  return head_html("wmtp", {refresh_s, {}}) + "<body><h1>wmtp</h1>\n" + notices_html(notices) +
         "</body></html>\n";
}

}  // namespace wmtp::tracking
