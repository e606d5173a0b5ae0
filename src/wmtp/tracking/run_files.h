// What a run leaves in its folder for people, scripts and `wmtp report`, besides metrics.jsonl and
// config.yaml. Rank 0 only. Files that grow are written line by line, the others appear whole.
#pragma once
#include <filesystem>
#include <optional>

#include "wmtp/core/json.h"
#include "wmtp/tracking/append_file.h"
#include "wmtp/tracking/sink.h"

namespace wmtp::tracking {

inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kConfigFile = "config.yaml";
inline constexpr const char* kSamplesFile = "samples.jsonl";
inline constexpr const char* kHistogramsFile = "histograms.jsonl";
inline constexpr const char* kEnvironmentFile = "environment.json";
inline constexpr const char* kSummaryFile = "summary.json";
inline constexpr const char* kLastExitFile = "last_exit.json";  // the program itself writes it
inline constexpr const char* kStartsFile = "restarts.jsonl";    // checkpoint/start_log.h writes it

class RunFiles : public Sink {
 public:
  // The folder must exist. Error io where a link or no regular file stands in a growing one's
  // place.
  explicit RunFiles(std::filesystem::path folder);

  void environment(const OrderedJson& facts) const;     // environment.json: versions, device, ranks
  void sample(const DecodedSample& sample) override;    // samples.jsonl
  void histogram(const Histogram& histogram) override;  // histograms.jsonl
  // summary.json; a run that was over before keeps that of the start which did the work.
  void finished(const RunSummary& summary) override;

 private:
  struct Growing {
    std::optional<AppendFile> lines;  // opened on first use
    bool is_refused = false;          // it cannot be opened
  };
  AppendFile* opened(Growing& file, const char* name);

  std::filesystem::path folder_;
  Growing samples_, histograms_;
};

}  // namespace wmtp::tracking
