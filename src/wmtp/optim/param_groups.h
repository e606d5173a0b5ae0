// Which parameters are updated with which rate and decay. Groups act on flat ranges: neighbours of
// one group are one launch.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "wmtp/layout/shard_plan.h"

namespace wmtp::optim {

struct GroupSettings {
  std::string name;          // policy, value_head, lora
  double learning_rate = 0;  // base rate; the schedule's factor is common to all groups
  double weight_decay = 0.01;
};

struct GroupRange {
  layout::Range in_shard;
  std::size_t group = 0;
  bool decays = true;
};

struct ParamGroups {
  std::vector<GroupSettings> groups;
  std::function<std::size_t(const layout::ParamSpec&)> group_of;  // null: all in group 0
  bool decay_vectors = true;  // false: 1-D parameters have no weight decay
};

// The rank's shard of a bucket, cut where group or decay changes.
std::vector<GroupRange> group_ranges(const layout::BucketPlan& plan, int rank,
                                     const ParamGroups& groups);

}  // namespace wmtp::optim
