// The run that a restart goes on with where no checkpoint names one.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace wmtp::tracking::mlflow {

// The uid of the newest run below `spool_dir` that has not finished: one that was killed, failed or
// stopped. Nothing where there is none, or nothing that can be read.
std::optional<std::string> unfinished_run(const std::filesystem::path& spool_dir);

}  // namespace wmtp::tracking::mlflow
