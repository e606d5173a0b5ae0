#include <fmt/format.h>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/findings/rule_texts.h"

namespace wmtp::tracking {
namespace {

std::string with_marked_keys(const Rule& rule) {
  std::string text(rule.advice);
  for (const std::string_view key : rule.keys)
    if (const auto place = text.find(key); place != std::string::npos)
      text.replace(place, key.size(), fmt::format("`{}`", key));
  return text;
}

}  // namespace

std::string_view name_of(Severity severity) {
  return severity == Severity::problem ? "problem" : "warning";
}

std::string percent_text(double share) {
  return fmt::format("{:g} %", share * 100);
}

const std::vector<Rule>& finding_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (auto* part : {waiting_rules, save_rules, stability_rules, learning_rules, data_rules})
      for (Rule& rule : part()) all.push_back(std::move(rule));
    return all;
  }();
  return rules;
}

std::string finding_rules_markdown() {
  std::string out =
      "| finding | why is it | looked at, and when it is told | why then | what to change | more "
      "|\n"
      "|---|---|---|---|---|---|\n";
  for (const Rule& rule : finding_rules())
    out += fmt::format("| `{}` | {} | {}: {} | {} | {} | [{}]({}#{}) |\n", rule.id, rule.question,
                       rule.subject, rule.limit, rule.why, with_marked_keys(rule), rule.section,
                       rule.docs.substr(rule.docs.find('/') + 1), slug(rule.section));
  return out;
}

}  // namespace wmtp::tracking
