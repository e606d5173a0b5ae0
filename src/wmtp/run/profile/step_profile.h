// The profile of a range of steps of a run: each rank's trace in <run_dir>/profile/rank_<R>.json,
// rank 0's table on the log and in summary.json there. A profile that cannot be written costs a
// warning, never the run.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "wmtp/comm/session.h"
#include "wmtp/run/plan/run_context.h"
#include "wmtp/run/profile/profiler.h"
#include "wmtp/run/profile/step_range.h"
#include "wmtp/tracking/profile_summary.h"

namespace wmtp::run {

class StepProfile {
 public:
  // Without steps nothing is ever recorded.
  StepProfile(std::optional<StepRange> steps, std::filesystem::path run_dir,
              const RunContext& context)
      : steps_(steps), run_dir_(std::move(run_dir)), context_(context) {}

  // Before the first step of a start that has `done` steps behind it: cuts the range to what is to
  // come. Error config where the run ends before it; what is behind is told.
  void plan(std::int64_t done, std::int64_t num_steps);

  void begin(std::int64_t step);  // before each step
  // After each step. Where the range ends with it: COLLECTIVE, BLOCKS until all ranks have written.
  void end(std::int64_t step, comm::ProcessGroupSession& session);
  void abandon(std::int64_t step);  // the loop has ended; tells of a range that was cut off

 private:
  void write();

  std::optional<StepRange> steps_;
  std::filesystem::path run_dir_;
  RunContext context_;
  std::unique_ptr<Profiler> profiler_;  // while it records
};

// The tables, line by line on the log.
void tell_profile(const tracking::ProfileSummary& summary);

}  // namespace wmtp::run
