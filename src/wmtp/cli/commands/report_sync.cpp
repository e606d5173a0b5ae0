#include <fmt/format.h>

#include <iostream>

#include "wmtp/cli/commands/report.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/printable.h"
#include "wmtp/models/saved_config.h"
#include "wmtp/tracking/mlflow/sync.h"
#include "wmtp/tracking/run_files.h"

namespace wmtp::cli {
namespace {

using tracking::mlflow::SyncedRun;

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

// Where the run's configuration says; a folder that was moved has its spool with it.
tracking::mlflow::SyncOptions sync_options(const std::filesystem::path& run_dir) {
  tracking::mlflow::SyncOptions options;
  options.env = comm::process_environment();
  const auto config_file = run_dir / tracking::kConfigFile;
  if (!std::filesystem::exists(config_file))
    throw Error(ErrorKind::config, "report",
                fmt::format("{} has no {}: no run has begun there", run_dir.string(),
                            tracking::kConfigFile),
                "name the folder of a run (runtime.run_dir)");
  const auto resolved =
      models::load_saved_config(read_file(config_file, kMaxConfigBytes), options.env);
  const config::Mlflow& mlflow = resolved.config.mlflow;
  options.spool_dir = mlflow.spool_dir;
  if (!std::filesystem::exists(options.spool_dir))
    options.spool_dir = run_dir / mlflow.spool_dir.filename();
  if (!std::filesystem::exists(options.spool_dir))
    throw Error(
        ErrorKind::config, "report",
        fmt::format("{} has no MLflow spool ({})", run_dir.string(), mlflow.spool_dir.string()),
        mlflow.experiment.empty() ? "the run was not told to use MLflow (mlflow.experiment)"
                                  : "was mlflow.spool_dir moved?");
  return options;
}

nlohmann::ordered_json to_json(const SyncedRun& run) {
  return {{"run_uid", run.run_uid}, {"run_id", run.run_id},     {"live", run.is_live},
          {"sent", run.sent},       {"rejected", run.rejected}, {"left", run.left},
          {"problem", run.problem}};
}

std::string line_of(const SyncedRun& run) {
  if (run.is_live) return fmt::format("{}: a process is at it and sends it itself", run.run_uid);
  std::string line = fmt::format("{}: {} values sent", run.run_uid, run.sent);
  if (!run.run_id.empty()) line += fmt::format(" to MLflow run {}", run.run_id);
  if (run.rejected > 0) line += fmt::format(", {} set aside (rejected.jsonl)", run.rejected);
  if (run.left > 0) line += fmt::format(", {} records left", run.left);
  if (!run.problem.empty()) line += ": " + run.problem;
  return line;
}

}  // namespace

int sync_mlflow(const std::vector<std::string>& runs, const Session& session) {
  bool all_sent = true;
  for (const std::string& run_dir : runs)
    for (const SyncedRun& run : tracking::mlflow::sync(sync_options(run_dir))) {
      all_sent = all_sent && (run.is_live || (run.left == 0 && run.problem.empty()));
      if (session.json)
        emit_json("result", to_json(run));
      else
        std::cout << printable(line_of(run)) << std::endl;
    }
  return static_cast<int>(all_sent ? ExitCode::ok : ExitCode::retry);
}

}  // namespace wmtp::cli
