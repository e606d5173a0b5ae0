// What `wmtp doctor` says about this machine and this process.
#pragma once
#include <filesystem>

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

// Free space, and what fsync and a large write cost in `folder`. Leaves nothing behind. BLOCKS for
// the disk, a second or so.
Check check_storage(const std::filesystem::path& folder);

}  // namespace wmtp::cli
