// A run's folders in the hands of one start. A start that does not get them has touched nothing
// there, for they may be those of a living run.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/run/checkpoints/train_state.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::cli {

struct RunFolderRequest {
  std::filesystem::path run_dir, save_dir;
  std::string model;   // as the checkpoints are called
  std::string run_id;  // the same at every start of one job
  bool force_unlock = false;
  std::string job = {};  // as checkpoint::LockHolder has it
  checkpoint::RestartCounts restarts = {};
};

// OWNS both locks until it is destroyed, or the process dies.
class RunFolder {
 public:
  // Rank 0's. BLOCKS while another start is at it. Makes the folders where there are none, takes
  // the lock of the folder and that of the checkpoints, makes the folder private and removes the
  // last_exit.json of the run before. Error config names who holds them, Error io what cannot be
  // made. `progress` is told whose the folder is. The lock's heartbeat begins.
  RunFolder(const RunFolderRequest& request, run::RunProgress& progress);

 private:
  UniqueFd folder_;
  std::optional<checkpoint::RunLock> checkpoints_;
  std::optional<checkpoint::LockHeartbeat> heartbeat_;
};

// Whether RunFolder would get them: Error config naming who has them, as far as that can be told
// without touching anything.
void require_free(const RunFolderRequest& request);

// `folder`, made absolute, or the first above it that exists: output folders appear with the run.
std::filesystem::path nearest_existing(std::filesystem::path folder);

// Whether another process has the lock of a run's folder.
bool is_folder_of_another(const std::filesystem::path& run_dir);

// The lock of a run's folder if nobody has it for long, until the descriptor closes. It is taken on
// the folder itself, so nothing in it changes. Nothing where there is no such folder, or the file
// system (NFS) cannot lock folders.
UniqueFd lock_folder_if_free(const std::filesystem::path& run_dir);

}  // namespace wmtp::cli
