// Folders that a launcher and its ranks share, in the temporary folder. Whoever uses one holds a
// shared lock on it, which the kernel lets go at any death: one that nobody holds is abandoned.
#pragma once
#include <filesystem>

#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {

// A new folder (0700), gone with this object.
class PrivateFolder {
 public:
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd hold_;
};

// A shared lock on the folder; none where it is gone or cannot be locked.
UniqueFd hold_folder(const std::filesystem::path& folder);

// Removes what killed launchers of this user left. Never throws; what it cannot be sure of stays.
void clear_abandoned_folders() noexcept;

}  // namespace wmtp::cli
