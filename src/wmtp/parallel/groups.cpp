#include "wmtp/parallel/groups.h"

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::parallel {

std::vector<comm::Communicator*> Groups::all() const {
  std::vector<comm::Communicator*> each;
  for (comm::Communicator* group : {gather, reduce, hybrid.gather, hybrid.reduce, hybrid.replicate})
    if (group && std::ranges::find(each, group) == each.end()) each.push_back(group);
  return each;
}

Groups groups_of(comm::ProcessGroupSession& session, const ParallelOptions& options) {
  Groups groups{&session.gather_group(), &session.reduce_group()};
  if (options.strategy == Strategy::hybrid_shard)
    groups.hybrid = session.shard_groups(options.shard_group_size);
  return groups;
}

comm::ShardGroups sharding_groups(const Groups& groups, const Placement& placement) {
  comm::ShardGroups used;
  if (placement.num_replicas() == 1) {
    used = {groups.gather, groups.reduce, nullptr};
  } else if (placement.shard_world == 1) {
    used = {nullptr, nullptr, groups.reduce};
  } else {
    used = groups.hybrid;
    WMTP_CHECK(used.gather && used.gather->world() == placement.shard_world && used.replicate,
               "HYBRID_SHARD runs on the groups of its size");
  }
  if (used.reduce && used.reduce->world() == 1) used = {};
  return used;
}

}  // namespace wmtp::parallel
