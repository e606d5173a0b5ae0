// `--strategy` and `--group-size`, as the benchmarks that shard have them.
#pragma once
#include <string>

#include "wmtp/cli/command.h"
#include "wmtp/parallel/options.h"

namespace wmtp::bench {

struct StrategyFlags {
  std::string name = "FULL_SHARD";
  int group_size = 1;  // of HYBRID_SHARD
};

// BORROWS the flags.
void add_strategy_flags(CLI::App& command, StrategyFlags& flags);

// Error config for a name that is none, and groups that do not divide the ranks.
void set_strategy(const StrategyFlags& flags, int world, parallel::ParallelOptions& options);

// Error config unless `size` divides the ranks.
int checked_group_size(int size, int world);

}  // namespace wmtp::bench
