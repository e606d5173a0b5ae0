// Ranks that hold the same weights must go on holding the same: a flipped bit or a wrong reduction
// would otherwise go unnoticed until the end.
#pragma once
#include <cstdint>

#include "wmtp/comm/communicator.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

// Of what every rank holds whole: weights, moments and frozen weights under NO_SHARD, the frozen
// ones alone under SHARD_GRAD_OP; 0 where each rank has its own part. Any single changed element
// changes it, and so do any two that changed places. BLOCKS for two passes over that state.
std::int64_t replicated_digest(training::TrainableModel& model);

// COLLECTIVE, BLOCKS. Error numeric naming the ranks whose digest differs from that of most; all of
// them where no digest has more than half of the ranks.
void check_replicated(training::TrainableModel& model, comm::Communicator& group,
                      std::int64_t step);

}  // namespace wmtp::run
