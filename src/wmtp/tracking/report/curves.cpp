#include "wmtp/tracking/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  const auto hash = pattern.find('#');
  if (hash == std::string_view::npos) return pattern == name;
  const auto head = pattern.substr(0, hash), tail = pattern.substr(hash + 1);
  if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
    return false;
  const auto middle = name.substr(head.size(), name.size() - head.size() - tail.size());
  return std::all_of(middle.begin(), middle.end(),
                     [](char c) { return std::isdigit(static_cast<unsigned char>(c)); });
}

bool is_validation(std::string_view name) {
  return name.starts_with("val/");
}

// What a name measures, whether in a step or in a validation: "train/loss" -> "loss". A critic's
// steps say `value/`.
std::string measured_by(const std::string& name) {
  for (const char* prefix : {"train/", "val/", "value/"})
    if (name.starts_with(prefix)) return name.substr(std::string_view(prefix).size());
  return name;
}

// Of a group, in its order.
std::vector<std::string> metrics_in(const CurveGroup& group, const RunData& run) {
  std::vector<std::string> names;
  for (const std::string& pattern : group.metrics)
    for (const auto& [name, points] : run.series)
      if (matches(pattern, name)) names.push_back(name);
  return names;
}

std::size_t index_of(const std::string& text, std::vector<std::string>& seen) {
  const auto found = std::find(seen.begin(), seen.end(), text);
  if (found == seen.end()) seen.push_back(text);
  return static_cast<std::size_t>(
      std::distance(seen.begin(), std::find(seen.begin(), seen.end(), text)));
}

std::vector<Mark> restart_marks(const RunData& run) {
  std::vector<Mark> marks;
  for (const std::int64_t step : run.restarts)
    marks.push_back({Mark::Kind::restart, step, fmt::format("restart at {}", step), {}, {}});
  return marks;
}

Mark best_mark(const Best& best) {
  return {Mark::Kind::best, best.step,
          fmt::format("best {} {} at {}", best.metric, short_number(best.value), best.step),
          best.metric == "val/loss" ? std::optional(best.value) : std::nullopt, std::nullopt};
}

// Moves marks to where their steps are; those without a place are left out.
std::vector<Mark> moved(const StepPlaces& places, const std::vector<Mark>& marks) {
  std::vector<Mark> out;
  for (const Mark& mark : marks)
    if (const auto place = places.of(mark.step)) {
      out.push_back(mark);
      out.back().step = *place;
    }
  return out;
}

// Validations are few and of the same rows: there is no noise to smooth.
Curve curve_of(const CurveGroup& group, std::string label, Series points, bool of_validations) {
  constexpr std::size_t kLeastToSmooth = 20;
  Curve curve{std::move(label), std::move(points), 0, of_validations, {}};
  if (group.is_loss && !of_validations && curve.points.size() >= kLeastToSmooth)
    curve.smoothed = running_mean(curve.points);
  return curve;
}

void set_axis(LineChart& chart, XAxis axis) {
  std::int64_t last = 0;
  for (const Curve& curve : chart.curves)
    if (!curve.points.empty()) last = std::max(last, curve.points.back().step);
  const AxisUnit unit = unit_of(axis, last);
  chart.x_unit = unit.size;
  chart.x_label = unit.label;
}

}  // namespace

const std::vector<CurveGroup>& curve_groups() {
  static const std::vector<CurveGroup> groups{
      {"Loss",
       {"train/loss", "val/loss", "train/unweighted_ce_loss", "val/unweighted_ce_loss",
        "train/value_loss", "val/value_loss"},
       true,
       true},
      {"Loss per head", {"train/head#_loss", "val/head#_loss", "val/head#_ce_loss"}, false, true},
      {"Perplexity", {"val/perplexity"}, false, true},
      {"Learning rate", {"train/learning_rate", "train/lora_lr", "train/value_head_lr"}},
      {"Gradient norm", {"train/grad_norm_pre_clip", "train/grad_norm"}},
      {"Factor of clipping", {"train/grad_clip_ratio"}},
      {"Tokens per second", {"perf/tokens_per_sec"}},
      {"Share of the device's peak", {"perf/mfu", "perf/hfu"}},
      {"Step time, ms", {"perf/step_time_ms", "perf/data_wait_ms"}},
      {"Token weights over time", {"weight/mean", "weight/std", "weight/min", "weight/max"}},
      {"Entropy and clipping of weights", {"weight/entropy", "weight/clipping_ratio"}},
      {"Value of right and wrong answers",
       {"value/mean_pos", "value/mean_neg", "val/mean_pos", "val/mean_neg"}},
      {"Pairwise accuracy", {"train/pairwise_accuracy", "val/pairwise_accuracy", "val/auc"}},
      {"Share of selected tokens", {"train/selection_ratio", "rho1/head#_ratio"}},
      {"Waited for communication", {"comm/wait_share"}},
      {"Speed of the slowest rank", {"perf/slowest_rank_speed"}},
      {"Saves, seconds", {"checkpoint/save_s", "checkpoint/blocked_s"}},
      {"Memory, GiB", {"system/gpu_memory_peak_gb", "system/host_memory_gb"}},
  };
  return groups;
}

std::string curve_anchor(std::string_view title) {
  return "curve-" + slug(title);
}

LineChart chart_of(const CurveGroup& group, const RunData& run, XAxis axis) {
  LineChart chart{.title = group.title + " of " + run.name};
  const StepPlaces places(run, axis);
  std::vector<std::string> colors;
  for (const std::string& name : metrics_in(group, run)) {
    chart.curves.push_back(
        curve_of(group, name, places.moved(*run.find(name)), is_validation(name)));
    chart.curves.back().color = index_of(measured_by(name), colors);
  }
  std::vector<Mark> marks = restart_marks(run);
  if (const Series* saves = run.find("checkpoint/save_s"); saves && group.marks_saves)
    for (const SeriesPoint& save : *saves)
      marks.push_back({Mark::Kind::save, save.step, fmt::format("saved at {}", save.step), {}, {}});
  if (run.best && group.marks_saves) marks.push_back(best_mark(*run.best));
  chart.marks = moved(places, marks);
  set_axis(chart, axis);
  return chart;
}

std::vector<LineChart> overlays_of(const CurveGroup& group, const std::vector<RunData>& runs,
                                   XAxis axis) {
  std::vector<LineChart> charts;
  std::vector<std::string> measured;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const StepPlaces places(runs[i], axis);
    for (const std::string& name : metrics_in(group, runs[i])) {
      const std::size_t place = index_of(measured_by(name), measured);
      if (place == charts.size()) charts.push_back({.title = measured[place]});
      charts[place].curves.push_back(
          curve_of(group, runs[i].name + (is_validation(name) ? ", validation" : ""),
                   places.moved(*runs[i].find(name)), is_validation(name)));
      charts[place].curves.back().color = i;
    }
    std::vector<Mark> marks = restart_marks(runs[i]);
    if (group.marks_saves && runs[i].best) {
      marks.push_back(best_mark(*runs[i].best));
      marks.back().text = runs[i].name + ": " + marks.back().text;
    }
    for (Mark& mark : marks) mark.color = i;
    if (charts.empty()) continue;
    for (const Mark& mark : moved(places, marks)) charts.front().marks.push_back(mark);
  }
  for (LineChart& chart : charts) set_axis(chart, axis);
  return charts;
}

}  // namespace wmtp::tracking
