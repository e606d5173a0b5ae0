// What `wmtp doctor --cluster` measures between ranks. All functions are COLLECTIVE and BLOCK for
// seconds, whatever the number of ranks; with one rank there is nothing to measure.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wmtp/comm/communicator.h"

namespace wmtp::cli {

struct CollectiveSpeed {
  std::string collective = {};  // all_reduce, all_gather
  std::int64_t bytes = 0;       // of the whole tensor
  double ms = 0;                // the best of a few, as the slowest rank saw it
  double gb_per_s() const { return static_cast<double>(bytes) / (ms * 1e6); }
};
// From 8 B to 64 MiB, less where the network takes long. The same on all ranks.
std::vector<CollectiveSpeed> time_collectives(comm::Communicator& group);

// The clock of a rank against rank 0's: asked there and back, so that the answer is out by half the
// way at most.
struct ClockSkew {
  int rank = 0;
  double skew_s = 0;   // above 0: it is ahead
  double bound_s = 0;  // the skew is right to this
};
// `clock`: seconds since 1970 by this rank. Of all ranks but 0; empty on those.
std::vector<ClockSkew> compare_clocks(comm::Communicator& group,
                                      const std::function<double()>& clock);

struct PairSpeed {
  int first = 0, second = 0;  // ranks, first < second
  double latency_ms = 0;      // of a small message, one way
  double gb_per_s = 0;        // of a large one
};
// Every pair by itself while others work too, in rounds of disjoint pairs; of large worlds the
// pairs of some rounds only. On all ranks the same, by rank.
std::vector<PairSpeed> time_pairs(comm::Communicator& group);

// Who meets whom: in `num_rounds(world)` rounds each rank meets each other one once. -1: nobody.
int num_rounds(int world);
int partner(int rank, int round, int world);

}  // namespace wmtp::cli
