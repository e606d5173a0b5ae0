#include "wmtp/tracking/mlflow/spool/unfinished_run.h"

#include "wmtp/tracking/mlflow/spool/spool_files.h"

namespace wmtp::tracking::mlflow {

std::optional<std::string> unfinished_run(const std::filesystem::path& spool_dir) {
  storage::LocalFileSystem files;
  std::optional<SpooledRun> newest;
  std::error_code ignored;
  if (!std::filesystem::is_directory(spool_dir, ignored)) return std::nullopt;
  for (const storage::FolderEntry& entry : files.list(spool_dir)) {
    if (entry.kind != storage::FileKind::folder) continue;
    const SpoolFiles spool(files, spool_dir / entry.name);
    const auto run = spool.run();
    const auto end = spool.end();
    if (!run || run->run_uid != entry.name) continue;
    if (end && end->status == RunStatus::finished) continue;
    if (!newest || run->start_ms > newest->start_ms) newest = run;
  }
  return newest ? std::optional(newest->run_uid) : std::nullopt;
}

}  // namespace wmtp::tracking::mlflow
