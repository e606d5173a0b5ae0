#include "wmtp/tracking/report/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "wmtp/core/time.h"
#include "wmtp/tracking/append_file.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/data_facts.h"
#include "wmtp/tracking/report/findings/findings.h"
#include "wmtp/tracking/report/findings/measures.h"
#include "wmtp/tracking/report/sample_html.h"
#include "wmtp/tracking/table.h"

namespace wmtp::tracking {
namespace {

std::string last_text(const RunData& run, const std::string& metric) {
  const auto value = run.last(metric);
  return value ? short_number(*value) : "-";
}

std::string median_text(const Series* points) {
  const auto middle = median(finite_values(points));
  return middle ? fmt::format("{:.0f}", *middle) : "-";
}

// Without the first report, whose step fills the pipeline.
std::string median_share_text(const Series* points) {
  const auto middle = median(settled_values(points));
  return middle ? fmt::format("{:.1f} %", *middle * 100) : "-";
}

std::string last_count(const RunData& run, const std::string& metric) {
  const auto value = run.last(metric);
  return value ? fmt::format("{:.0f}", *value) : "-";
}

// A value that follows from the folder or from the name of its own run, said by that:
// `${runtime.run_dir}/logs`, `checkpoints/${experiment.name}`.
std::string without_own_name(const RunData& run, const std::string& key, const std::string& value) {
  const std::string folder(config_value(run, "runtime.run_dir"));
  const std::string name(config_value(run, "experiment.name"));
  const bool below = !folder.empty() && value.starts_with(folder) &&
                     (value.size() == folder.size() || value[folder.size()] == '/');
  if (below) return "${runtime.run_dir}" + value.substr(folder.size());
  const bool named =
      key != "experiment.name" && !name.empty() && (value == name || value.ends_with("/" + name));
  return named ? value.substr(0, value.size() - name.size()) + "${experiment.name}" : value;
}

OrderedJson links_json(const RunData& run) {
  OrderedJson out = OrderedJson::array();
  for (const RunLink& link : run.links)
    out.push_back({{"name", link.name},
                   {"text", link.text},
                   {"url", link.url.empty() ? OrderedJson() : OrderedJson(link.url)}});
  return out;
}

OrderedJson samples_json(const RunData& run) {
  OrderedJson out = OrderedJson::array();
  for (const SampleHistory& history : sample_histories(run)) {
    const DecodedSample& first = *history.first;
    OrderedJson sample{{"split", first.split}, {"id", nullptr}, {"correct", nullptr}};
    if (first.id) sample["id"] = *first.id;
    if (first.correct) sample["correct"] = *first.correct;
    sample["first_step"] = first.step;
    sample["last_step"] = history.last->step;
    out.push_back(std::move(sample));
  }
  return out;
}

OrderedJson run_json(const RunData& run) {
  OrderedJson series = OrderedJson::object();
  for (const auto& [name, points] : run.series) {
    OrderedJson list = OrderedJson::array();
    for (const SeriesPoint& point : points)
      list.push_back(OrderedJson::array({point.step, json_number(point.value)}));
    series[name] = std::move(list);
  }
  OrderedJson events = OrderedJson::array();
  for (const NotedEvent& event : run.events)
    events.push_back({{"step", event.step}, {"event", event.kind}, {"text", event.text}});
  OrderedJson best = nullptr;
  if (run.best)
    best = {{"metric", run.best->metric},
            {"value", json_number(run.best->value)},
            {"step", run.best->step}};
  OrderedJson out{{"name", run.name}, {"folder", run.folder.string()}, {"stage", run.stage}};
  out.update(findings_json(run));
  out.update({{"labels", to_json(run.labels)},
              {"last_step", run.last_step},
              {"wall_time_s", json_number(run.wall_time_s)},
              {"restarts", run.restarts},
              {"events", events},
              {"best", best},
              {"state", state_text(run)},
              {"ended", run.has_ended()},
              {"data", data_json(run)},
              {"samples", samples_json(run)},
              {"links", links_json(run)},
              {"paths", OrderedJson(std::map(run.paths.begin(), run.paths.end()))},
              {"notices", run.notices},
              {"profile", run.profile ? to_json(*run.profile) : OrderedJson(nullptr)},
              {"series", series}});
  return out;
}

std::string run_text(const RunData& run) {
  std::string out;
  const auto add = [&](std::string_view line) { out += fmt::format("{}: {}\n", run.name, line); };
  for (const auto& [name, text] : run.labels.shown())
    add(fmt::format("{}: {}", name, visible(text)));
  for (const std::int64_t step : run.restarts) add(fmt::format("continued from step {}", step));
  for (const NotedEvent& event : run.events)
    add(fmt::format("step {}: {}", event.step, visible(event.text)));
  for (const RunLink& link : run.links)
    add(fmt::format("{}: {}", link.name, visible(link.url.empty() ? link.text : link.url)));
  for (const SampleHistory& history : sample_histories(run))
    if (const std::string place = sample_place(*history.first); !place.empty())
      add(fmt::format("shows {}{} of steps {} and {}", visible(place),
                      !history.first->correct   ? ""
                      : *history.first->correct ? ", right,"
                                                : ", wrong,",
                      history.first->step, history.last->step));
  for (const std::string& notice : run.notices) out += notice + "\n";
  return out;
}

}  // namespace

std::string state_text(const RunData& run) {
  if (run.last_exit && run.last_exit->code != 0)
    return fmt::format("ended with {}: {}", run.last_exit->code, run.last_exit->reason);
  return run.has_ended() ? "ended" : "not ended";
}

std::vector<std::string> overview_header() {
  return {"run",        "stage", "steps",  "train loss", "last val loss", "best",
          "tokens/sec", "MFU",   "tokens", "time",       "restarts",      "state"};
}

std::vector<std::string> overview_cells(const RunData& run) {
  return {run.name,
          run.stage.empty() ? "-" : run.stage,
          std::to_string(run.last_step),
          last_text(run, "train/loss"),
          last_text(run, "val/loss"),
          run.best ? fmt::format("{} {} at {}", run.best->metric, short_number(run.best->value),
                                 run.best->step)
                   : "-",
          median_text(run.find("perf/tokens_per_sec")),
          median_share_text(run.find("perf/mfu")),
          last_count(run, "train/tokens_seen"),
          format_duration(run.wall_time_s),
          std::to_string(run.restarts.size()),
          state_text(run)};
}

std::vector<std::vector<std::string>> config_differences(const std::vector<RunData>& runs) {
  std::vector<std::vector<std::string>> rows;
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const auto& [key, value] : runs[i].config) {
      auto& row = values[key];
      row.resize(runs.size(), "-");
      row[i] = without_own_name(runs[i], key, value);
    }
  for (auto& [key, row] : values) {
    if (std::all_of(row.begin(), row.end(), [&](const auto& cell) { return cell == row[0]; }))
      continue;
    row.insert(row.begin(), key);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string report_text(const std::vector<RunData>& runs, bool color) {
  std::string out;
  for (const RunData& run : runs) out += findings_text(run);
  Table overview(overview_header());
  for (const RunData& run : runs) overview.add_row(overview_cells(run));
  out += "\n" + overview.text(color);
  for (const RunData& run : runs) out += run_text(run);
  for (const RunData& run : runs) {
    Table data(data_header());
    for (const auto& row : data_cells(run)) data.add_row(row);
    if (!data_cells(run).empty())
      out += (runs.size() > 1 ? "\n" + run.name + "\n" : "\n") + data.text(color);
  }
  for (const RunData& run : runs)
    if (run.profile) out += fmt::format("\n{}: {}", run.name, profile_text(*run.profile, color));
  std::vector<std::string> header{"metric"};
  std::map<std::string, std::vector<std::string>> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    header.push_back(runs[i].name);
    for (const auto& [name, points] : runs[i].series) {
      auto& row = rows[name];
      row.resize(runs.size(), "-");
      row[i] = short_number(points.back().value);
    }
  }
  Table last(header);
  for (auto& [name, row] : rows) {
    row.insert(row.begin(), name);
    last.add_row(row);
  }
  out += "\n" + last.text(color);
  if (runs.size() < 2) return out;
  header[0] = "key";
  Table differences(header);
  for (const auto& row : config_differences(runs)) differences.add_row(row);
  return out + "\n" + differences.text(color);
}

OrderedJson report_json(const std::vector<RunData>& runs) {
  OrderedJson list = OrderedJson::array();
  for (const RunData& run : runs) list.push_back(run_json(run));
  OrderedJson out{{"runs", std::move(list)}};
  if (runs.size() < 2) return out;
  OrderedJson differences = OrderedJson::object();
  for (const auto& row : config_differences(runs))
    differences[row[0]] = std::vector<std::string>(row.begin() + 1, row.end());
  out["config_differences"] = std::move(differences);
  return out;
}

}  // namespace wmtp::tracking
