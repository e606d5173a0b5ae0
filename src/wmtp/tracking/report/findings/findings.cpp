#include "wmtp/tracking/report/findings/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "wmtp/tracking/append_file.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking {
namespace {

bool is_explained(const Finding& finding, const std::vector<Finding>& all) {
  const auto& causes = finding.rule->explained_by;
  return std::any_of(all.begin(), all.end(), [&causes](const Finding& other) {
    return std::find(causes.begin(), causes.end(), other.rule->id) != causes.end();
  });
}

std::string subjects_of(const std::vector<const Rule*>& rules) {
  std::vector<std::string_view> subjects;
  for (const Rule* rule : rules) subjects.push_back(rule->subject);
  return fmt::format("{}", fmt::join(subjects, ", "));
}

std::vector<std::string_view> ids_of(const std::vector<const Rule*>& rules) {
  std::vector<std::string_view> ids;
  for (const Rule* rule : rules) ids.push_back(rule->id);
  return ids;
}

}  // namespace

std::string numbers_of(const Evidence& evidence) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : evidence.numbers)
    parts.push_back(name + " " + short_number(value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string place_of(const Rule& rule) {
  return fmt::format("{}, \"{}\"", rule.docs, rule.section);
}

std::string looked_at_text(const RunFindings& findings) {
  std::string out = "looked at: " + subjects_of(findings.looked_at);
  if (!findings.without_data.empty())
    out += "; no numbers for: " + subjects_of(findings.without_data);
  return out;
}

RunFindings find_causes(const RunData& run) {
  RunFindings findings;
  std::vector<Finding> all;
  for (const Rule& rule : finding_rules()) {
    Look look = rule.look(run);
    (look.has_numbers ? findings.looked_at : findings.without_data).push_back(&rule);
    if (look.evidence) all.push_back({&rule, *std::move(look.evidence)});
  }
  for (const Finding& finding : all)
    if (!is_explained(finding, all)) findings.found.push_back(finding);
  std::stable_partition(findings.found.begin(), findings.found.end(), [](const Finding& finding) {
    return finding.rule->severity == Severity::problem;
  });
  return findings;
}

std::string findings_text(const RunData& run) {
  const RunFindings findings = find_causes(run);
  const std::size_t count = findings.found.size();
  std::string out = visible(run.name);
  out +=
      count == 0 ? ": nothing found" : fmt::format(": {} finding{}", count, count == 1 ? "" : "s");
  out += "; " + looked_at_text(findings) + "\n";
  for (const Finding& finding : findings.found)
    out += fmt::format("  {} {} ({}): {}\n    numbers: {}\n    change: {}\n    more: {}\n",
                       name_of(finding.rule->severity), finding.rule->id, finding.rule->question,
                       visible(finding.evidence.fact), numbers_of(finding.evidence),
                       finding.rule->advice, place_of(*finding.rule));
  return out;
}

OrderedJson findings_json(const RunData& run) {
  const RunFindings findings = find_causes(run);
  OrderedJson list = OrderedJson::array();
  for (const Finding& finding : findings.found) {
    const Rule& rule = *finding.rule;
    OrderedJson numbers = OrderedJson::object();
    for (const auto& [name, value] : finding.evidence.numbers) numbers[name] = json_number(value);
    list.push_back({{"id", rule.id},
                    {"severity", name_of(rule.severity)},
                    {"question", rule.question},
                    {"fact", finding.evidence.fact},
                    {"numbers", std::move(numbers)},
                    {"limit", rule.limit},
                    {"advice", rule.advice},
                    {"keys", rule.keys},
                    {"docs", fmt::format("{}#{}", rule.docs, slug(rule.section))}});
  }
  return {{"findings", std::move(list)},
          {"looked_at", ids_of(findings.looked_at)},
          {"not_looked_at", ids_of(findings.without_data)}};
}

}  // namespace wmtp::tracking
