// `wmtp launch --slurm FILE`: a batch script for sbatch, filled in from those of packaging/slurm.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp::cli {

struct BatchRequest {
  std::string program;               // as the nodes find it
  std::vector<std::string> command;  // train and what follows it
  int num_nodes = 1;
  int ranks_per_node = 1;
  bool requeues = true;                  // back into the queue after a stop or a crash
  std::vector<std::string> environment;  // K=V
};

// One node or several, and with `requeues` the one that comes back. Ranks on CPUs (--device cpu)
// ask for no GPUs. `--resume auto` is added where the command does not say. Error config names a
// command other than train.
std::string batch_script(const BatchRequest& request);

// BLOCKS. A new file that its owner may execute; Error config where there is one, io where none can
// be made.
void write_batch_script(const std::filesystem::path& path, const std::string& script);

}  // namespace wmtp::cli
