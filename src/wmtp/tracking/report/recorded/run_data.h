// A run folder as the report sees it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/tracking/profile_summary.h"
#include "wmtp/tracking/run_files.h"
#include "wmtp/tracking/sample_view.h"

namespace wmtp::tracking {

struct SeriesPoint {
  std::int64_t step = 0;
  double value = 0;  // may be NaN or infinite
};
using Series = std::vector<SeriesPoint>;  // by rising step, each step once

struct NotedEvent {
  std::int64_t step = 0;
  std::string kind = {}, text = {};
  bool operator==(const NotedEvent&) const = default;
};

struct LastExit {
  int code = 0;
  std::string reason = {};
};

struct RunLink {
  std::string name = {};  // "MLflow"
  std::string text = {};
  std::string url = {};  // http or https; "": the text is no address
};

struct RunData {
  std::string name = {};  // the folder's
  std::filesystem::path folder = {};
  std::string stage = {};  // "" where no file tells
  RunLabels labels = {};
  std::map<std::string, Series> series = {};  // by metric name
  std::vector<std::int64_t> restarts = {};    // the step each resume continued from
  std::vector<std::int64_t> starts = {};      // of restarts.jsonl: the step each began behind
  std::vector<NotedEvent> events = {};        // in the order they were told, each once
  std::int64_t last_step = 0;
  double wall_time_s = 0;  // from the first to the last line
  // When each step was told, from the first line on, without the pauses before restarts, and
  // without the steps that a restart went back behind and has not done again.
  Series time_s = {};
  std::optional<Best> best = {};
  std::optional<std::int64_t> done_at = {};  // the last step of a run that came to its end
  std::optional<LastExit> last_exit = {};    // of its last start; none while one is at it
  std::vector<std::pair<std::string, std::string>> paths = {};   // what the run says it wrote
  std::vector<RunLink> links = {};                               // where else it can be seen
  std::string config_yaml = {};                                  // "" where there is none
  std::vector<std::pair<std::string, std::string>> config = {};  // its keys and values, flat
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::vector<DecodedSample> samples = {};
  std::vector<Histogram> histograms = {};
  std::optional<ProfileSummary> profile = {};  // where one was taken
  std::vector<std::string> notices = {};       // what was left out

  const Series* find(const std::string& metric) const;
  std::optional<double> last(const std::string& metric) const;
  // It has said how it ended, or came to its last step. A process that was killed says nothing.
  bool has_ended() const { return last_exit || (done_at && last_step <= *done_at); }
};

// Of the configuration, by its flat key (`runtime.run_dir`); "": not there.
std::string_view config_value(const RunData& run, std::string_view key);

// Reads metrics.jsonl (required) and what else is there. A folder that is missing is
// ErrorKind::config; one without metrics, without a single step, or with a damaged file is
// ErrorKind::data naming file and line.
RunData read_run(const std::filesystem::path& folder);

}  // namespace wmtp::tracking
