// How a run went: what people are told at its end and scripts read afterwards.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/tracking/point.h"
#include "wmtp/tracking/table.h"

namespace wmtp::tracking {

inline constexpr const char* kFinalPath = "final";  // among RunSummary::paths

struct Best {
  std::string metric = {};  // "val/loss"
  double value = 0;
  std::int64_t step = 0;
};

// What people call a run and what it was made from; free text.
struct RunLabels {
  std::string description = {};
  std::vector<std::string> tags = {};
  std::string dataset = {}, reference = {};

  // ("tags", "a, b"), ... without those that are empty.
  std::vector<std::pair<std::string, std::string>> shown() const;
};
OrderedJson to_json(const RunLabels& labels);

struct RunSummary {
  std::string experiment = {}, stage = {};
  RunLabels labels = {};
  std::string status = "completed";  // completed | early_stop | stopped
  std::int64_t step = 0, num_steps = 0;
  std::optional<Best> best = {};
  NamedValues last = {};                                        // by metric name
  std::vector<std::pair<std::string, std::string>> paths = {};  // "final" -> runs/x/final
  NamedValues timings_s = {};  // "training", "validation", "saving"
  std::vector<std::pair<std::string, std::int64_t>> counts = {};  // "tokens", "samples", "restarts"
  std::string next = {};    // what to type next; for the console alone
  bool has_trained = true;  // this start did steps; otherwise the run was over before
};

OrderedJson to_json(const RunSummary& summary);
// `Training completed: step 3000, best val/loss 0.941 at 2800`, without line feed.
std::string completion_line(const RunSummary& summary);
// What the console shows below it: how the run ended, its best, its model and the next command;
// then the rest.
Table outcome_table(const RunSummary& summary);
Table summary_table(const RunSummary& summary);

}  // namespace wmtp::tracking
