// Why is this run slow: what the steps waited for.
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/tracking/report/findings/measures.h"
#include "wmtp/tracking/report/findings/rules.h"

namespace wmtp::tracking {

Look look_at_data_wait(const RunData& run) {
  const auto wait_ms = mean(settled_values(run.find("perf/data_wait_ms")));
  const auto step_ms = mean(settled_values(run.find("perf/step_time_ms")));
  const Series* reports = run.find("perf/data_wait_ms");
  if (!wait_ms || !step_ms || reports->size() < kLeastReports) return {};
  const double share = *step_ms > 0 ? *wait_ms / *step_ms : 0;
  if (share <= kDataWaitShare || *wait_ms <= kDataWaitLeast_ms) return {.has_numbers = true};
  return {true, Evidence{fmt::format("{:.0f} % of the time the steps waited for their data: {:.1f} "
                                     "of {:.1f} ms a step",
                                     share * 100, *wait_ms, *step_ms),
                         {{"perf/data_wait_ms", *wait_ms}, {"perf/step_time_ms", *step_ms}}}};
}

Look look_at_comm_wait(const RunData& run) {
  const std::vector<double> shares = settled_values(run.find("comm/wait_share"));
  if (shares.size() + 1 < kLeastReports) return {};
  const double share = *median(shares);
  if (share <= kCommWaitShare) return {.has_numbers = true};
  Evidence evidence{fmt::format("{:.0f} % of a step stood still for other ranks", share * 100),
                    {{"comm/wait_share", share}}};
  for (const char* name : {"comm/wait_ms", "comm/wait_share_max"})
    if (const auto value = median(settled_values(run.find(name))))
      evidence.numbers.emplace_back(name, *value);
  return {true, std::move(evidence)};
}

Look look_at_stragglers(const RunData& run) {
  const Series* speeds = run.find("perf/slowest_rank_speed");
  if (!speeds) return {};
  const Series* slowdowns = run.find("perf/straggler_slowdown");
  if (!slowdowns) return {.has_numbers = true};
  const auto worst =
      std::max_element(slowdowns->begin(), slowdowns->end(),
                       [](const auto& a, const auto& b) { return a.value < b.value; });
  if (worst->value <= kStragglerSlowdown) return {.has_numbers = true};
  Evidence evidence{fmt::format("at step {} a rank took {:.2f} times as long as the fastest one",
                                worst->step, worst->value),
                    {{"perf/straggler_slowdown", worst->value}}};
  if (const Series* ranks = run.find("perf/straggler_rank"))
    for (const SeriesPoint& point : *ranks)
      if (point.step == worst->step)
        evidence.numbers.emplace_back("perf/straggler_rank", point.value);
  for (const NotedEvent& event : run.events)
    if (event.kind == "straggler" && event.step == worst->step) {
      evidence.fact = fmt::format("step {}: {}", event.step, event.text);
      break;  // the slowest comes first
    }
  return {true, std::move(evidence)};
}

}  // namespace wmtp::tracking
