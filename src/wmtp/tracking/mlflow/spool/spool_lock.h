// One process at a time writes or sends a run's spool.
#pragma once
#include <filesystem>
#include <optional>

#include "wmtp/core/unique_fd.h"

namespace wmtp::tracking::mlflow {

// Held until it is destroyed, or the process ends, however.
class SpoolLock {
 public:
  // Makes the folder and those above it (private) where there are none. Nothing: another process
  // has it. Throws storage::FileError.
  static std::optional<SpoolLock> take(const std::filesystem::path& folder);

 private:
  explicit SpoolLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace wmtp::tracking::mlflow
