#include "wmtp/tracking/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/time.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking {
namespace {

OrderedJson to_json(const SampleToken& token) {
  OrderedJson line{{"t", token.text},
                   {"m", token.is_target ? 1 : 0},
                   {"w", json_number(token.weight)},
                   {"v", nullptr},
                   {"sel", nullptr}};
  if (token.value) line["v"] = json_number(*token.value);
  if (!token.selected.empty()) line["sel"] = token.selected;
  return line;
}

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

void write_object(const std::filesystem::path& path, const OrderedJson& object) {
  storage::write_file_atomically(path,
                                 object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

RunFiles::RunFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

void RunFiles::sample(const DecodedSample& sample) {
  if (!samples_) samples_.emplace(folder_ / kSamplesFile);
  OrderedJson tokens = OrderedJson::array();
  for (const SampleToken& token : sample.tokens) tokens.push_back(to_json(token));
  samples_->line({{"step", sample.step}, {"stage", sample.stage}, {"tokens", std::move(tokens)}});
}

void RunFiles::histogram(const Histogram& histogram) {
  if (!histograms_) histograms_.emplace(folder_ / kHistogramsFile);
  histograms_->line({{"step", histogram.step},
                     {"name", histogram.name},
                     {"edges", histogram.edges},
                     {"counts", histogram.counts}});
}

void RunFiles::environment(const OrderedJson& facts) const {
  write_object(folder_ / kEnvironmentFile, facts);
}

void RunFiles::summary(const RunSummary& summary) const {
  write_object(folder_ / kSummaryFile, tracking::to_json(summary));
}

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

Histogram make_histogram(std::string name, std::int64_t step, const std::vector<double>& values,
                         std::size_t num_bins) {
  WMTP_CHECK(num_bins > 0, "a histogram has bins");
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  Histogram histogram{step, std::move(name), {}, {}};
  if (finite.empty()) return histogram;
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  // All values equal: one bin around them.
  const double from = *low == *high ? *low - 0.5 : *low, to = *low == *high ? *high + 0.5 : *high;
  const std::size_t bins = *low == *high ? 1 : num_bins;
  const double width = to / static_cast<double>(bins) - from / static_cast<double>(bins);
  histogram.counts.assign(bins, 0);
  for (std::size_t i = 0; i < bins; ++i)
    histogram.edges.push_back(from + static_cast<double>(i) * width);
  histogram.edges.push_back(to);
  for (const double value : finite) {
    const auto bin = static_cast<std::size_t>(std::max(0.0, (value - from) / width));
    ++histogram.counts[std::min(bin, bins - 1)];
  }
  return histogram;
}

}  // namespace wmtp::tracking
