// What `wmtp doctor --collectives` shows: are the collectives right, and how fast.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "wmtp/comm/session.h"

namespace wmtp::comm {

struct CollectiveTiming {
  std::string collective = {};  // all_gather, reduce_scatter, all_reduce
  std::string over = {};        // ranks, shard group, replicas
  std::string dtype = {};
  std::int64_t bytes = 0;  // of the whole (gathered or reduced) tensor
  double best_ms = 0;      // the slowest rank counts
  double gb_per_s = 0;     // bytes / time
};

struct SelfTestResult {
  std::string backend = {}, where = {};
  int world = 1;
  int num_checks = 0;  // exact comparisons made, all right
  std::vector<CollectiveTiming> timings = {};
  std::vector<std::string> lines() const;  // for people
};

// COLLECTIVE, BLOCKS. REQUIRES connect(). A wrong number is Error comm naming collective, rank and
// element. `group_size` > 0: also within groups of so many ranks and between them, all groups at
// once, as HYBRID_SHARD uses them; it divides the world.
SelfTestResult run_collective_self_test(ProcessGroupSession& session,
                                        std::int64_t max_bytes = std::int64_t{16} << 20,
                                        int group_size = 0);

}  // namespace wmtp::comm
