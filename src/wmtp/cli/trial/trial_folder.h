// A folder of a trial's own where a run's folder would be: on the same storage, with the same
// rights, and gone when the trial is over.
#pragma once
#include <filesystem>
#include <string_view>

#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {

class TrialFolder {
 public:
  // In `folder` or, where that is not there yet, in the nearest above it that is; removes what
  // trials that were killed have left there. Error io, naming `key`, where nothing can be written.
  TrialFolder(const std::filesystem::path& folder, std::string_view key);
  ~TrialFolder() { remove(); }
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void remove() noexcept;  // THREADS: any; again is fine

 private:
  std::filesystem::path path_;
  UniqueFd lock_;  // says that the trial lives
};

}  // namespace wmtp::cli
