// Ranks that hold the same weights must go on holding the same: a flipped bit or a wrong reduction
// would otherwise go unnoticed until the end.
#pragma once
#include <cstdint>

#include "wmtp/comm/communicator.h"
#include "wmtp/training/assemble.h"

namespace wmtp::training {

// Of the weights and moments that every rank holds whole (NO_SHARD); 0 where each has its own part.
// Any single changed element changes it. BLOCKS for a pass over the state.
std::int64_t replicated_digest(TrainableModel& model);

// COLLECTIVE, BLOCKS. Error numeric naming the ranks whose digest differs from that of most.
void check_replicated(TrainableModel& model, comm::Communicator& group, std::int64_t step);

}  // namespace wmtp::training
