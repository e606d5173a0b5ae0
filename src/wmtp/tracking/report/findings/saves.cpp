// Why is this run slow: saves that training waits for or does without, and work done again.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "wmtp/tracking/report/findings/measures.h"
#include "wmtp/tracking/report/findings/rules.h"

namespace wmtp::tracking {
namespace {

std::size_t num_points(const RunData& run, const char* metric) {
  const Series* points = run.find(metric);
  return points ? points->size() : 0;
}

// Saves that were made, were left out or failed: without any there is nothing to look at.
bool has_saves(const RunData& run) {
  return num_points(run, "checkpoint/save_s") + num_points(run, "checkpoint/skipped_saves") +
             num_points(run, "checkpoint/failed_saves") >
         0;
}

// The step each start began behind. Without restarts.jsonl: what metrics.jsonl has of them.
std::vector<std::int64_t> begins_of(const RunData& run) {
  if (!run.starts.empty()) return run.starts;
  std::vector<std::int64_t> begins{0};
  begins.insert(begins.end(), run.restarts.begin(), run.restarts.end());
  return begins;
}

}  // namespace

Look look_at_blocking_saves(const RunData& run) {
  const Series* points = run.find("checkpoint/blocked_s");
  if (!points) return {};
  // The end of a run has to wait for its last save, and nothing waits behind it.
  Series inside = *points;
  std::erase_if(inside, [&run](const SeriesPoint& save) { return save.step >= run.last_step; });
  const std::vector<double> seconds = finite_values(&inside);
  const double blocked_s = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const double share = run.wall_time_s > 0 ? blocked_s / run.wall_time_s : 0;
  const double each_s = mean(seconds).value_or(0);
  if (share <= kSaveBlockedShare || each_s <= kSaveBlockedLeast_s) return {.has_numbers = true};
  return {
      true,
      Evidence{fmt::format("training stood still for {} saves: {:.2f} s each, {:.0f} % of the "
                           "run's time",
                           seconds.size(), each_s, share * 100),
               {{"checkpoint/blocked_s", each_s}, {"saves", static_cast<double>(seconds.size())}}}};
}

Look look_at_left_out_saves(const RunData& run) {
  if (!has_saves(run)) return {};
  const auto left_out = static_cast<double>(num_points(run, "checkpoint/skipped_saves"));
  const auto made = static_cast<double>(num_points(run, "checkpoint/save_s"));
  if (left_out <= kLeftOutShare * (left_out + made)) return {.has_numbers = true};
  Evidence evidence{
      fmt::format("{:.0f} of {:.0f} saves were left out, since the one before was still being "
                  "written",
                  left_out, left_out + made),
      {{"checkpoint/skipped_saves", left_out}}};
  if (const auto save_s = median(finite_values(run.find("checkpoint/save_s"))))
    evidence.numbers.emplace_back("checkpoint/save_s", *save_s);
  return {true, std::move(evidence)};
}

Look look_at_failed_saves(const RunData& run) {
  if (!has_saves(run)) return {};
  const std::size_t failed = num_points(run, "checkpoint/failed_saves");
  if (failed < kFailedSaves) return {.has_numbers = true};
  return {true, Evidence{fmt::format("{} saves failed, the last one at step {}", failed,
                                     run.find("checkpoint/failed_saves")->back().step),
                         {{"checkpoint/failed_saves", static_cast<double>(failed)}}}};
}

Look look_at_restarts(const RunData& run) {
  const std::vector<std::int64_t> begins = begins_of(run);
  std::size_t vain = 0;
  std::int64_t stuck_at = 0;
  for (std::size_t i = 1; i < begins.size(); ++i) {
    // A run that is done may be started again, and finds nothing left to do.
    if (begins[i] > begins[i - 1] || (run.done_at && begins[i] >= *run.done_at)) continue;
    ++vain;
    stuck_at = begins[i];
  }
  if (vain < kVainStarts) return {.has_numbers = true};
  return {true, Evidence{fmt::format("{} of {} starts ended without a new checkpoint; the next one "
                                     "began behind step {} again",
                                     vain, begins.size(), stuck_at),
                         {{"starts", static_cast<double>(begins.size())},
                          {"starts without progress", static_cast<double>(vain)}}}};
}

}  // namespace wmtp::tracking
