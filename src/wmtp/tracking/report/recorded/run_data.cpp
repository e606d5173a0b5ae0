#include "wmtp/tracking/report/recorded/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/config/canonical.h"
#include "wmtp/config/yaml/yaml_reader.h"
#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/tracking/report/recorded/json_lines.h"
#include "wmtp/tracking/report/recorded/run_links.h"

namespace wmtp::tracking {
namespace {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

// The time that a run was at work. What passes between the last line before a restart and the first
// one after it is a pause.
class WorkClock {
 public:
  void pause() {
    is_paused_ = true;
    ++num_starts_;
  }
  void take(std::int64_t step, double time_s) {
    if (!first_s_) first_s_ = last_s_ = time_s;
    if (std::exchange(is_paused_, false)) paused_s_ += time_s - last_s_;
    last_s_ = time_s;
    Told& told = told_[step];
    if (told.start != num_starts_) told = {num_starts_, time_s - *first_s_ - paused_s_};
  }
  double wall_time_s() const { return first_s_ ? last_s_ - *first_s_ : 0; }
  // Without the steps that a restart went back behind and has not done again.
  Series by_step() const {
    Series out;
    int start = 0;
    for (const auto& [step, told] : told_) {
      if (told.start < start) break;
      start = told.start;
      out.push_back({step, told.at_s});
    }
    return out;
  }

 private:
  struct Told {
    int start = 0;
    double at_s = 0;
  };
  std::optional<double> first_s_;
  double last_s_ = 0, paused_s_ = 0;
  bool is_paused_ = false;
  int num_starts_ = 1;
  std::map<std::int64_t, Told> told_;  // as the last start that did the step first told it
};

struct MetricsReader {
  RunData& run;
  std::map<std::string, std::map<std::int64_t, double>> values;  // a later line replaces
  WorkClock clock;

  void take(const JsonLine& line) {
    if (line.object.contains("event")) {
      if (line.object["event"] == "resume") {
        run.restarts.push_back(integer_field(line, line.object, "step"));
        clock.pause();
      } else
        take_event(line);
      return;
    }
    const std::int64_t step = integer_field(line, line.object, "step");
    const double time_s = number_of(line, field(line, line.object, "time"), "time");
    clock.take(step, time_s);
    run.last_step = std::max(run.last_step, step);
    for (const auto& [key, value] : line.object.items())
      if (key != "step" && key != "time") values[key][step] = number_of(line, value, key);
  }

  // A run that goes on from a checkpoint does the same steps again and says the same of them.
  void take_event(const JsonLine& line) const {
    NotedEvent event{integer_field(line, line.object, "step"),
                     text_field(line, line.object, "event"), text_field(line, line.object, "text")};
    if (std::find(run.events.begin(), run.events.end(), event) == run.events.end())
      run.events.push_back(std::move(event));
  }
};

void read_metrics(RunData& run) {
  const auto path = run.folder / kMetricsFile;
  if (!std::filesystem::exists(path))
    throw Error(ErrorKind::data, "report",
                fmt::format("{} has no {}", run.folder.string(), kMetricsFile),
                "is it the run folder (runtime.run_dir), and was tracking.jsonl on?");
  MetricsReader reader{run, {}, {}};
  for_each_json_line(path, run.notices, [&](const JsonLine& line) { reader.take(line); });
  if (reader.values.empty())
    throw Error(ErrorKind::data, "report", fmt::format("{}: no step was recorded", path.string()),
                "the first line is written after the first step");
  run.wall_time_s = reader.clock.wall_time_s();
  run.time_s = reader.clock.by_step();
  for (const auto& [key, points] : reader.values)
    for (const auto& [step, value] : points) run.series[key].push_back({step, value});
}

DecodedSample read_sample(const JsonLine& line) {
  DecodedSample sample{.step = integer_field(line, line.object, "step"),
                       .stage = text_field(line, line.object, "stage"),
                       .tokens = {}};
  if (line.object.contains("split")) sample.split = text_field(line, line.object, "split");
  if (line.object.contains("id"))
    sample.id = static_cast<std::uint64_t>(integer_field(line, line.object, "id"));
  if (line.object.contains("correct")) sample.correct = line.object["correct"] == true;
  for (const Json& item : array_field(line, line.object, "tokens")) {
    SampleToken token;
    token.text = text_field(line, item, "t");
    token.is_target = integer_field(line, item, "m") != 0;
    token.weight = number_of(line, field(line, item, "w"), "w");
    if (const Json& value = field(line, item, "v"); !value.is_null())
      token.value = number_of(line, value, "v");
    if (!field(line, item, "sel").is_null())
      for (const Json& flag : array_field(line, item, "sel"))
        token.selected.push_back(number_of(line, flag, "sel") != 0 ? 1 : 0);
    sample.tokens.push_back(std::move(token));
  }
  return sample;
}

Histogram read_histogram(const JsonLine& line) {
  Histogram histogram{.step = integer_field(line, line.object, "step"),
                      .name = text_field(line, line.object, "name"),
                      .edges = {},
                      .counts = {}};
  for (const Json& edge : array_field(line, line.object, "edges"))
    histogram.edges.push_back(number_of(line, edge, "edges"));
  for (const Json& count : array_field(line, line.object, "counts"))
    histogram.counts.push_back(
        static_cast<std::uint64_t>(std::max(0.0, number_of(line, count, "counts"))));
  const bool rising = std::is_sorted(histogram.edges.begin(), histogram.edges.end());
  const bool finite = std::all_of(histogram.edges.begin(), histogram.edges.end(),
                                  [](double edge) { return std::isfinite(edge); });
  const bool empty = histogram.edges.empty() && histogram.counts.empty();
  if (!rising || !finite || (!empty && histogram.edges.size() != histogram.counts.size() + 1))
    throw Error(ErrorKind::data, "report",
                fmt::format("{}: {} edges do not bound {} counts", line.where,
                            histogram.edges.size(), histogram.counts.size()));
  return histogram;
}

// {"a": {"b": 1}} -> ("a.b", "1")
void flatten(const OrderedJson& value, const std::string& key, KeyValues& out) {
  if (!value.is_object()) {
    out.emplace_back(key, value.is_string() ? value.get<std::string>() : config::yaml_text(value));
    return;
  }
  for (const auto& [name, inner] : value.items())
    flatten(inner, key.empty() ? name : key + "." + name, out);
}

// Of a configuration, which is there from the start; keys it does not have stay empty.
RunLabels labels_of(const OrderedJson& config) {
  const auto at = [&config](const char* pointer) {
    const OrderedJson::json_pointer place(pointer);
    return config.contains(place) ? config.at(place) : OrderedJson();
  };
  const auto text = [&at](const char* pointer) {
    const OrderedJson value = at(pointer);
    return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
  };
  RunLabels labels{
      text("/experiment/description"), {}, text("/dataset/name"), text("/models/reference/name")};
  if (const OrderedJson tags = at("/experiment/tags"); tags.is_array())
    for (const OrderedJson& tag : tags)
      labels.tags.push_back(tag.is_string() ? tag.get<std::string>() : tag.dump());
  return labels;
}

void read_config(RunData& run) {
  const auto path = run.folder / kConfigFile;
  if (!std::filesystem::exists(path)) return;
  run.config_yaml = read_file(path, config::YamlLimits::kBytes, ErrorKind::data);
  config::Problems problems;
  const auto tree = config::read_yaml(run.config_yaml, problems.add_file(path.string()), problems);
  if (!problems.empty() || !tree)
    throw Error(ErrorKind::data, "report", fmt::format("{} is no configuration", path.string()),
                "`wmtp validate` tells what is wrong with it");
  const OrderedJson values = config::json_of(*tree);
  flatten(values, "", run.config);
  run.labels = labels_of(values);
  for (const auto& [key, value] : run.config)
    if (key == "experiment.stage") run.stage = value;
}

void read_summary(RunData& run) {
  const auto path = run.folder / kSummaryFile;
  if (!std::filesystem::exists(path)) return;
  const JsonLine summary{read_json(path), path.string()};
  if (const Json& best = field(summary, summary.object, "best"); !best.is_null())
    run.best = Best{text_field(summary, best, "metric"),
                    number_of(summary, field(summary, best, "value"), "value"),
                    integer_field(summary, best, "step")};
  for (const auto& [name, value] : field(summary, summary.object, "paths").items())
    run.paths.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  if (run.stage.empty()) run.stage = text_field(summary, summary.object, "stage");
  if (text_field(summary, summary.object, "status") != "stopped")
    run.done_at = integer_field(summary, summary.object, "step");
}

void read_starts(RunData& run) {
  const auto path = run.folder / kStartsFile;
  if (!std::filesystem::exists(path)) return;
  for_each_json_line(path, run.notices, [&run](const JsonLine& line) {
    const bool resumed = !field(line, line.object, "resumed_step").is_null();
    run.starts.push_back(resumed ? integer_field(line, line.object, "resumed_step") : 0);
  });
}

void read_last_exit(RunData& run) {
  const auto path = run.folder / kLastExitFile;
  if (!std::filesystem::exists(path)) return;
  const JsonLine exit{read_json(path), path.string()};
  run.last_exit = LastExit{static_cast<int>(integer_field(exit, exit.object, "code")),
                           text_field(exit, exit.object, "reason")};
}

// A run that has not ended has no summary yet: its best validation so far.
void find_best(RunData& run) {
  const Series* losses = run.find("val/loss");
  if (run.best || !losses) return;
  for (const SeriesPoint& point : *losses)
    if (std::isfinite(point.value) && (!run.best || point.value < run.best->value))
      run.best = Best{"val/loss", point.value, point.step};
}

}  // namespace

const Series* RunData::find(const std::string& metric) const {
  const auto found = series.find(metric);
  return found == series.end() ? nullptr : &found->second;
}

std::optional<double> RunData::last(const std::string& metric) const {
  const Series* points = find(metric);
  return points ? std::optional(points->back().value) : std::nullopt;
}

std::string_view config_value(const RunData& run, std::string_view key) {
  for (const auto& [name, value] : run.config)
    if (name == key) return value;
  return "";
}

RunData read_run(const std::filesystem::path& folder) {
  RunData run;
  run.folder = folder;
  if (!std::filesystem::is_directory(folder))
    throw Error(ErrorKind::config, "report", fmt::format("{} is no folder", folder.string()),
                "name the run folder (runtime.run_dir) of a training run");
  run.name = std::filesystem::canonical(folder).filename().string();
  read_metrics(run);
  if (std::filesystem::exists(folder / kSamplesFile))
    for_each_json_line(folder / kSamplesFile, run.notices,
                       [&](const JsonLine& line) { run.samples.push_back(read_sample(line)); });
  if (std::filesystem::exists(folder / kHistogramsFile))
    for_each_json_line(folder / kHistogramsFile, run.notices, [&](const JsonLine& line) {
      run.histograms.push_back(read_histogram(line));
    });
  if (std::filesystem::exists(folder / kEnvironmentFile))
    flatten(OrderedJson(read_json(folder / kEnvironmentFile)), "", run.environment);
  read_config(run);
  read_summary(run);
  read_starts(run);
  read_last_exit(run);
  run.links = recorded_links(run);
  if (const auto file = profile_file(folder); std::filesystem::exists(file))
    run.profile = read_profile(file);
  find_best(run);
  if (run.stage.empty() && !run.samples.empty()) run.stage = run.samples.front().stage;
  return run;
}

}  // namespace wmtp::tracking
