// What a run leaves in its folder for people, scripts and `wmtp report`, besides metrics.jsonl and
// config.yaml. Rank 0 only. Files that grow are written line by line, the others appear whole.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/tracking/append_file.h"
#include "wmtp/tracking/sample_view.h"
#include "wmtp/tracking/sink.h"
#include "wmtp/tracking/table.h"

namespace wmtp::tracking {

inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kConfigFile = "config.yaml";
inline constexpr const char* kSamplesFile = "samples.jsonl";
inline constexpr const char* kHistogramsFile = "histograms.jsonl";
inline constexpr const char* kEnvironmentFile = "environment.json";
inline constexpr const char* kSummaryFile = "summary.json";
inline constexpr const char* kFinalPath = "final";  // among RunSummary::paths

struct Histogram {
  std::int64_t step = 0;
  std::string name = {};                   // "weight", "value", ...
  std::vector<double> edges = {};          // rising; one more than counts
  std::vector<std::uint64_t> counts = {};  // of [edges[i], edges[i+1]), the last bin closed
};

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
  std::string next = {};  // what to type next; for the console alone
};

class RunFiles {
 public:
  explicit RunFiles(std::filesystem::path folder);  // which must exist

  void sample(const DecodedSample& sample);          // samples.jsonl
  void histogram(const Histogram& histogram);        // histograms.jsonl
  void environment(const OrderedJson& facts) const;  // environment.json: versions, device, ranks
  void summary(const RunSummary& summary) const;     // summary.json

 private:
  std::filesystem::path folder_;
  std::optional<AppendFile> samples_, histograms_;  // opened on first use
};

OrderedJson to_json(const RunSummary& summary);
// `Training completed: step 3000, best val/loss 0.941 at 2800`, without line feed.
std::string completion_line(const RunSummary& summary);
// What the console shows below it: how the run ended, its best, its model and the next command;
// then the rest.
Table outcome_table(const RunSummary& summary);
Table summary_table(const RunSummary& summary);

// Counts `values` into `num_bins` equal bins from the smallest to the largest finite one.
Histogram make_histogram(std::string name, std::int64_t step, const std::vector<double>& values,
                         std::size_t num_bins = 40);

}  // namespace wmtp::tracking
