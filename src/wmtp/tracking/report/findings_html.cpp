#include "wmtp/tracking/report/findings_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/curves.h"
#include "wmtp/tracking/report/findings/findings.h"
#include "wmtp/tracking/report/html_parts.h"

namespace wmtp::tracking {
namespace {

bool has_chart(const RunData& run, std::string_view title) {
  const auto& groups = curve_groups();
  return std::any_of(groups.begin(), groups.end(), [&](const CurveGroup& group) {
    return group.title == title && !to_svg(chart_of(group, run)).empty();
  });
}

std::string finding_html(const RunData& run, const Finding& finding) {
  const Rule& rule = *finding.rule;
  std::string chart;
  if (has_chart(run, rule.chart))
    chart =
        fmt::format(" (<a href=\"#{}\">{}</a>)", curve_anchor(rule.chart), escape_html(rule.chart));
  return fmt::format(
      "<li class=\"{0}\"><b>{0}, {1}</b>: {2}.<dl><dt>numbers</dt><dd>{3}{4}</dd>"
      "<dt>change</dt><dd>{5}</dd><dt>more</dt><dd>{6}; <code>{7}</code> is told where: {8}</dd>"
      "</dl></li>\n",
      name_of(rule.severity), rule.question, escape_html(finding.evidence.fact),
      escape_html(numbers_of(finding.evidence)), chart, escape_html(rule.advice),
      escape_html(place_of(rule)), rule.id, escape_html(rule.limit));
}

}  // namespace

std::string findings_html(const RunData& run) {
  const RunFindings findings = find_causes(run);
  std::string items;
  for (const Finding& finding : findings.found) items += finding_html(run, finding);
  return (items.empty() ? "<p>Nothing found.</p>\n"
                        : "<ul class=\"findings\">\n" + items + "</ul>\n") +
         details_html("What was looked at",
                      "<p class=\"note\">" + escape_html(looked_at_text(findings)) + "</p>", false);
}

}  // namespace wmtp::tracking
