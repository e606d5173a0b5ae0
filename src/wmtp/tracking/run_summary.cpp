#include "wmtp/tracking/run_summary.h"

#include <fmt/format.h>

#include "wmtp/core/time.h"
#include "wmtp/tracking/append_file.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking {
namespace {

OrderedJson to_json(const NamedValues& values) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, value] : values) object[name] = json_number(value);
  return object;
}

template <class Value>
OrderedJson to_json(const std::vector<std::pair<std::string, Value>>& values) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, value] : values) object[name] = value;
  return object;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> RunLabels::shown() const {
  std::string all_tags;
  for (const std::string& tag : tags) all_tags += (all_tags.empty() ? "" : ", ") + tag;
  std::vector<std::pair<std::string, std::string>> pairs{{"description", description},
                                                         {"tags", all_tags},
                                                         {"dataset", dataset},
                                                         {"reference", reference}};
  std::erase_if(pairs, [](const auto& pair) { return pair.second.empty(); });
  return pairs;
}

OrderedJson to_json(const RunLabels& labels) {
  return {{"description", labels.description},
          {"tags", labels.tags},
          {"dataset", labels.dataset},
          {"reference", labels.reference}};
}

OrderedJson to_json(const RunSummary& summary) {
  OrderedJson best = nullptr;
  if (summary.best)
    best = {{"metric", summary.best->metric},
            {"value", json_number(summary.best->value)},
            {"step", summary.best->step}};
  return {{"experiment", summary.experiment},
          {"stage", summary.stage},
          {"labels", to_json(summary.labels)},
          {"status", summary.status},
          {"step", summary.step},
          {"num_steps", summary.num_steps},
          {"best", best},
          {"last", to_json(summary.last)},
          {"paths", to_json(summary.paths)},
          {"timings_s", to_json(summary.timings_s)},
          {"counts", to_json(summary.counts)}};
}

std::string completion_line(const RunSummary& summary) {
  std::string line = fmt::format(
      "Training {}: step {}", summary.status == "stopped" ? "stopped" : "completed", summary.step);
  if (summary.status == "early_stop") line += " (early stop)";
  if (summary.best)
    line += fmt::format(", best {} {:.4g} at {}", summary.best->metric, summary.best->value,
                        summary.best->step);
  return line;
}

Table outcome_table(const RunSummary& summary) {
  Table table({"", ""});
  table.add_row({"status", fmt::format("{}, {} of {} steps", summary.status, summary.step,
                                       summary.num_steps)});
  if (summary.best)
    table.add_row({"best " + summary.best->metric,
                   fmt::format("{:.5g} at step {}", summary.best->value, summary.best->step)});
  for (const auto& [name, path] : summary.paths)
    if (name == kFinalPath) table.add_row({name, visible(path)});
  if (!summary.next.empty()) table.add_row({"next", visible(summary.next)});
  return table;
}

Table summary_table(const RunSummary& summary) {
  Table table({"", ""});
  table.add_row({"run", summary.experiment});
  table.add_row({"stage", summary.stage});
  for (const auto& [name, text] : summary.labels.shown()) table.add_row({name, visible(text)});
  for (const auto& [name, value] : summary.last)
    table.add_row({name, fmt::format("{:.5g}", value)});
  for (const auto& [name, seconds] : summary.timings_s)
    table.add_row({name, format_duration(seconds)});
  for (const auto& [name, count] : summary.counts) table.add_row({name, std::to_string(count)});
  for (const auto& [name, path] : summary.paths)
    if (name != kFinalPath) table.add_row({name, path});
  return table;
}

}  // namespace wmtp::tracking
