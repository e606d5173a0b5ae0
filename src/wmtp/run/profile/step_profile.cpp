#include "wmtp/run/profile/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/run/profile/time_table.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::run {

void StepProfile::plan(std::int64_t done, std::int64_t num_steps) {
  if (!steps_) return;
  StepRange& steps = *steps_;
  const bool tells = context_.rank == 0;
  if (steps.last <= done) {
    if (tells)
      log::warn("profile", "no profile: the run goes on behind step {}, and {} asked for", done,
                steps.first == steps.last ? name_of(steps) + " was" : name_of(steps) + " were");
    return steps_.reset();
  }
  if (steps.first > num_steps)
    throw Error(ErrorKind::config, "train",
                fmt::format("--profile: the run has {} step{}, so there is no step {}", num_steps,
                            num_steps == 1 ? "" : "s", steps.first),
                "name steps that the run takes, counted from 1");
  const StepRange asked = steps;
  steps = {std::max(steps.first, done + 1), std::min(steps.last, num_steps)};
  if (tells && steps != asked)
    log::warn("profile", "of {} that were asked for, {} {} to come", name_of(asked), name_of(steps),
              steps.first == steps.last ? "is" : "are");
}

void StepProfile::begin(std::int64_t step) {
  if (steps_ && step == steps_->first) profiler_ = std::make_unique<Profiler>(context_.device);
}

// No rank begins its next step, which has a limit of time, while another one still writes.
void StepProfile::end(std::int64_t step, comm::ProcessGroupSession& session) {
  if (!profiler_ || step != steps_->last) return;
  session.watchdog().enter("profile", std::chrono::milliseconds(0));
  const auto warn = [this](std::string_view why) {
    log::warn("profile", "the profile of {} is lost: {}", name_of(*steps_), why);
  };
  try {
    write();
  } catch (const Error& error) {
    warn(error.fact());
  } catch (const std::exception& error) {
    warn(error.what());
  }
  profiler_.reset();
  session.gather_group().barrier("profile");
}

void StepProfile::write() {
  const std::filesystem::path folder = run_dir_ / tracking::kProfileFolder;
  std::filesystem::create_directories(folder);
  const std::filesystem::path trace = folder / fmt::format("rank_{}.json", context_.rank);
  const auto spans = profiler_->finish(trace, storage::AtomicFile::kPrivate);
  if (context_.rank != 0) return;
  tracking::ProfileSummary summary = time_table(spans, *steps_);
  summary.rank = context_.rank;
  summary.world = context_.world;
  summary.device = context_.device.is_cuda() ? "cuda" : "cpu";
  storage::write_file_atomically(tracking::profile_file(run_dir_), to_json(summary).dump(2) + "\n");
  tell_profile(summary);
  log::info("profile", "the trace is {}: open it in https://ui.perfetto.dev or chrome://tracing",
            trace.string());
}

void tell_profile(const tracking::ProfileSummary& summary) {
  std::istringstream lines(profile_text(summary));
  for (std::string line; std::getline(lines, line);) log::info("profile", "{}", line);
}

void StepProfile::abandon(std::int64_t step) {
  if (!profiler_) return;
  profiler_.reset();
  if (context_.rank == 0)
    log::warn("profile", "no profile: the run ended at step {}, before the end of {}", step,
              name_of(*steps_));
}

}  // namespace wmtp::run
