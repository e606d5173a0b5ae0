#include "wmtp/tracking/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

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

}  // namespace

const std::vector<CurveGroup>& curve_groups() {
  static const std::vector<CurveGroup> groups{
      {"Loss",
       {"train/loss", "val/loss", "train/unweighted_ce_loss", "val/unweighted_ce_loss",
        "train/value_loss", "val/value_loss"}},
      {"Loss per head", {"train/head#_loss", "val/head#_loss", "val/head#_ce_loss"}},
      {"Learning rate", {"train/learning_rate", "train/lora_lr", "train/value_head_lr"}},
      {"Gradient norm", {"train/grad_norm_pre_clip", "train/grad_norm"}},
      {"Tokens per second", {"perf/tokens_per_sec"}},
      {"Token weights over time", {"weight/mean", "weight/std", "weight/min", "weight/max"}},
      {"Value of right and wrong answers",
       {"value/mean_pos", "value/mean_neg", "val/mean_pos", "val/mean_neg"}},
      {"Pairwise accuracy", {"train/pairwise_accuracy", "val/pairwise_accuracy", "val/auc"}},
      {"Share of selected tokens", {"train/selection_ratio", "rho1/head#_ratio"}},
      {"Waited for communication", {"comm/wait_share"}},
      {"Memory, GiB", {"system/gpu_memory_peak_gb", "system/host_memory_gb"}},
  };
  return groups;
}

LineChart chart_of(const CurveGroup& group, const RunData& run) {
  LineChart chart{.title = group.title + " of " + run.name,
                  .x_label = "step",
                  .curves = {},
                  .marks = run.restarts};
  for (const std::string& pattern : group.metrics)
    for (const auto& [name, points] : run.series)
      if (matches(pattern, name)) chart.curves.push_back({name, points});
  return chart;
}

LineChart overlay_of(const std::string& metric, const std::vector<RunData>& runs) {
  LineChart chart{.title = metric, .x_label = "step", .curves = {}, .marks = {}};
  for (const RunData& run : runs)
    if (const Series* points = run.find(metric)) chart.curves.push_back({run.name, *points});
  return chart;
}

std::optional<LineChart> value_chart(const DecodedSample& sample) {
  LineChart chart{.title = fmt::format("value along the sample of step {}", sample.step),
                  .x_label = "token",
                  .curves = {{"prompt", {}}, {"response", {}}},
                  .marks = {}};
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    const SampleToken& token = sample.tokens[i];
    if (token.value)
      chart.curves[token.is_target ? 1 : 0].points.push_back(
          {static_cast<std::int64_t>(i), *token.value});
  }
  if (chart.curves[0].points.empty() && chart.curves[1].points.empty()) return std::nullopt;
  return chart;
}

}  // namespace wmtp::tracking
