// The communicators of a run, and which of them a sharded model uses.
#pragma once
#include <vector>

#include "wmtp/comm/session.h"
#include "wmtp/parallel/options.h"

namespace wmtp::parallel {

// BORROWS. Two over all ranks, because gathers and reductions would queue behind each other on one;
// those of HYBRID_SHARD where the run has it.
struct Groups {
  comm::Communicator* gather = nullptr;
  comm::Communicator* reduce = nullptr;
  comm::ShardGroups hybrid = {};

  std::vector<comm::Communicator*> all() const;  // each once
};

// COLLECTIVE, BLOCKS where the groups of HYBRID_SHARD are connected. REQUIRES session.connect().
Groups groups_of(comm::ProcessGroupSession& session, const ParallelOptions& options);

// Where a unit's shards are exchanged, whatever the strategy: between those who hold it together,
// and between those who hold the same. Null: nobody else does.
comm::ShardGroups sharding_groups(const Groups& groups, const Placement& placement);

}  // namespace wmtp::parallel
