// One rank of a run, from the launcher's variables to one exit code for all ranks.
#pragma once
#include <filesystem>
#include <functional>

#include "wmtp/cli/command.h"
#include "wmtp/cli/report.h"
#include "wmtp/comm/session.h"
#include "wmtp/config/config.h"
#include "wmtp/run/checkpoints/train_state.h"

namespace wmtp::cli {

struct DeviceRequest {
  std::string device = "auto";  // auto | cuda | cpu; anything else is refused by name
  bool allow_shared_gpu = false;
};

// The device of this rank: a named one that cannot be used is Error config, never a silent CPU.
// REQUIRES: before any other LibTorch call of the process.
c10::Device choose_device(const comm::LaunchEnv& launch, const DeviceRequest& wish);

// Bytes a rank may use: the device's, or its share of the host's, and no more than
// runtime.memory_limit_gib.
std::int64_t rank_memory(const config::Config& config, int local_world, c10::Device device);

// The launcher's variables, with the number of GPUs this process would see.
comm::LaunchEnv discover_launch();
// OpenMP and ATen pools; `configured` 0 = automatic. Returns the number chosen.
int set_threads(const comm::LaunchEnv& launch, int configured);

struct RankRun {
  comm::LaunchEnv launch;
  comm::SessionOptions options;                // `leave` and `nccl` are filled in here
  bool allow_shared_gpu = false;               // two ranks on one GPU are otherwise Error config
  const run::RunProgress* progress = nullptr;  // BORROWED; null: no last_exit.json
  // Called last, with the code all ranks leave with and its reason, on whatever thread knows it.
  std::function<void(int, const std::string&)> on_exit = {};
};
// COLLECTIVE, BLOCKS. Meets the others, runs `body`, ends in order. Whatever is thrown after the
// meeting is settled between the ranks: all return (or leave) with the code of the first that
// failed. However it ends, <run_dir>/last_exit.json says so, unless the folder is another run's.
int run_as_rank(const Session& session, RankRun run,
                const std::function<int(comm::ProcessGroupSession&)>& body);

// Runs `work`, and tells the others of its failure before the caller's objects are destroyed: where
// that takes long, a rank that waits for this one would call it a hang.
template <class Work>
auto broadcasting_failure(comm::ProcessGroupSession& group, Work&& work) {
  try {
    return work();
  } catch (const std::exception& thrown) {
    group.broadcast_failure(as_error(thrown));
    throw;
  }
}

}  // namespace wmtp::cli
