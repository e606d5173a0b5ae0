#include "wmtp/bench/strategy_flags.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::bench {

void add_strategy_flags(CLI::App& command, StrategyFlags& flags) {
  command.add_option("--strategy", flags.name,
                     "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD or HYBRID_SHARD");
  command
      .add_option("--group-size", flags.group_size,
                  "Ranks of a group of HYBRID_SHARD; divides the ranks")
      ->check(CLI::Range(1, 65536));
}

void set_strategy(const StrategyFlags& flags, int world, parallel::ParallelOptions& options) {
  options.strategy = parallel::strategy_from_name(flags.name);
  if (options.strategy == parallel::Strategy::hybrid_shard)
    options.shard_group_size = checked_group_size(flags.group_size, world);
}

int checked_group_size(int size, int world) {
  if (world % size == 0) return size;
  throw Error(ErrorKind::config, "bench",
              fmt::format("--group-size {} does not divide the {} ranks", size, world));
}

}  // namespace wmtp::bench
