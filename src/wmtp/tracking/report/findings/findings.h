// What the report says first: why a run is slow, unstable or not learning.
#pragma once
#include <string>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/tracking/report/findings/rule.h"

namespace wmtp::tracking {

struct Finding {
  const Rule* rule = nullptr;  // of finding_rules()
  Evidence evidence = {};
};

struct RunFindings {
  std::vector<Finding> found = {};             // problems first
  std::vector<const Rule*> looked_at = {};     // the found ones included
  std::vector<const Rule*> without_data = {};  // the run has no numbers for these
};

// Asks every rule. A finding that another one explains is left out.
RunFindings find_causes(const RunData& run);

// "RUN: 2 findings" and what is found, a few lines each; or that nothing was, and what was looked
// at.
std::string findings_text(const RunData& run);
// `findings`, `looked_at` and `not_looked_at` of a run.
OrderedJson findings_json(const RunData& run);

// Parts of what is told: "perf/data_wait_ms 12.3, ...", `docs/stages.md, "Weight statistics"`, and
// what the rules looked at or had no numbers for.
std::string numbers_of(const Evidence& evidence);
std::string place_of(const Rule& rule);
std::string looked_at_text(const RunFindings& findings);

}  // namespace wmtp::tracking
