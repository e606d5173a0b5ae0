#include "wmtp/optim/param_groups.h"

namespace wmtp::optim {

std::vector<GroupRange> group_ranges(const layout::BucketPlan& plan, int rank,
                                     const ParamGroups& groups) {
  std::vector<GroupRange> ranges;
  for (const layout::Piece& piece : plan.pieces(rank)) {
    const layout::ParamSpec& param = plan.params()[piece.param];
    const GroupRange next{.in_shard = {piece.in_shard, piece.in_shard + piece.in_param.size()},
                          .group = groups.group_of ? groups.group_of(param) : 0,
                          .decays = groups.decay_vectors || param.shape.size() > 1};
    const bool joins = !ranges.empty() && ranges.back().in_shard.end == next.in_shard.begin &&
                       ranges.back().group == next.group && ranges.back().decays == next.decays;
    if (joins)
      ranges.back().in_shard.end = next.in_shard.end;
    else
      ranges.push_back(next);
  }
  return ranges;
}

}  // namespace wmtp::optim
