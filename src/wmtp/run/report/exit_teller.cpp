#include "wmtp/run/report/exit_teller.h"

#include <utility>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

using tracking::mlflow::RunStatus;

RunStatus run_status(ExitCode code) {
  switch (code) {
    case ExitCode::ok:
      return RunStatus::finished;
    case ExitCode::preempted_saved:
    case ExitCode::preempted_unsaved:
      return RunStatus::killed;
    default:
      return RunStatus::failed;
  }
}

// A finished run has time; a preempted one little, and the other ranks of a failing one are
// leaving.
std::chrono::milliseconds longest_end(RunStatus status) {
  using std::chrono::seconds;
  return status == RunStatus::finished ? seconds(30)
         : status == RunStatus::killed ? seconds(10)
                                       : seconds(2);
}

}  // namespace

void ExitTeller::attach(const RunSinks& sinks) {
  const std::scoped_lock lock(mutex_);
  kept_ = sinks.kept;
  mlflow_ = sinks.mlflow;
}

void ExitTeller::tell(int exit_code, const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  const auto kept = std::exchange(kept_, nullptr);
  const auto mlflow = std::exchange(mlflow_, nullptr);
  if (kept) kept->flush_within(std::chrono::seconds(1));
  if (!mlflow) return;
  const RunStatus status = run_status(static_cast<ExitCode>(exit_code));
  mlflow->end({status, exit_code, reason}, longest_end(status));
}

}  // namespace wmtp::run
