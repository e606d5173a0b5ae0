// Ranks that hold the same weights must go on holding the same: a flipped bit or a wrong reduction
// would otherwise go unnoticed until the end.
#pragma once
#include <cstdint>

#include "wmtp/comm/communicator.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

// Of what is there more than once, the same on all ranks as long as it is alike everywhere:
// weights, moments and frozen weights of the own replica under NO_SHARD and HYBRID_SHARD, the
// frozen ones alone under SHARD_GRAD_OP; 0 where each rank has its own part. Any single changed
// element changes it, and so do any two that changed places. COLLECTIVE. BLOCKS for two passes over
// that state.
std::int64_t replica_digest(training::TrainableModel& model, comm::Communicator& group);

// COLLECTIVE, BLOCKS. Error numeric naming the ranks whose state differs from that of most who
// should hold the same; all of those where no state is that of more than half of them.
void check_replicated(training::TrainableModel& model, comm::Communicator& group,
                      std::int64_t step);

// What failing memory does; for tests.
void flip_a_bit(training::TrainableModel& model);

}  // namespace wmtp::run
