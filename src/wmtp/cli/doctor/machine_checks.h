// What `wmtp doctor` says about this machine and this process.
#pragma once
#include <filesystem>
#include <optional>

#include "wmtp/cli/doctor/check.h"
#include "wmtp/comm/launch/launch_env.h"

namespace wmtp::cli {

struct Versions;

Check check_libtorch(const Versions& versions);
Check check_gpus(const Versions& versions, int num_installed);
Check check_cores(const comm::LaunchEnv& launch);
Check check_memory();
Check check_limits();
Check check_clock();
Check check_launcher(const comm::LaunchEnv& launch);

struct DiskSpeed {
  double fsync_ms = 0;  // median of a 4 KiB write and its fsync
  double mb_per_s = 0;  // of one large write with fsync
};
struct StorageFinding {
  Check check;
  std::optional<DiskSpeed> speed;  // absent: nothing can be written there
};
// Free space, and what fsync and a large write cost in `folder`. Leaves nothing behind. BLOCKS for
// the disk, a second or so.
StorageFinding check_storage(const std::filesystem::path& folder);

}  // namespace wmtp::cli
