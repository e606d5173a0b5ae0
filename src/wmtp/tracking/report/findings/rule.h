// A rule of the report: a pure function over what a run recorded, and what people are told where it
// applies. The page, the text, the JSON and docs/report.md are made from the same rows.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/tracking/point.h"
#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

// problem: results or a good part of the time are lost; warning: worth a look.
enum class Severity { warning, problem };
std::string_view name_of(Severity severity);

struct Evidence {
  std::string fact = {};     // what is the case, with its numbers
  NamedValues numbers = {};  // those it follows from, by metric or by place in environment.json
};

// What a rule makes of a run.
struct Look {
  bool has_numbers = false;               // false: the run recorded nothing that the rule reads
  std::optional<Evidence> evidence = {};  // absent: nothing to tell
};

struct Rule {
  std::string_view id = {};        // "data-wait"
  std::string_view question = {};  // slow, unstable, or not learning
  Severity severity = Severity::warning;
  std::string_view subject = {};                    // what is looked at: "waiting for data"
  std::string limit = {};                           // the threshold in words, from its constant
  std::string_view why = {};                        // why it is that one
  std::string_view advice = {};                     // what to change, naming the keys
  std::vector<std::string_view> keys = {};          // of the configuration, those of the advice
  std::string_view docs = {}, section = {};         // "docs/troubleshooting.md", "Slow input"
  std::string_view chart = {};                      // the CurveGroup with its numbers; "": none
  std::vector<std::string_view> explained_by = {};  // rules whose finding says why: this is silent
  Look (*look)(const RunData& run) = nullptr;
};

// All of them, in the order in which findings are told.
const std::vector<Rule>& finding_rules();

// The table of docs/report.md.
std::string finding_rules_markdown();

}  // namespace wmtp::tracking
