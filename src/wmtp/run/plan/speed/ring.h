// Which links the collectives of a step run over, where ranks fill nodes.
#pragma once
#include "wmtp/run/plan/predict_step.h"

namespace wmtp::run {

struct ClusterLinks {
  LinkModel node;     // of a rank, within its node
  LinkModel network;  // of a whole node
  int ranks_per_node = 8;
};

// A ring through whole nodes leaves each of them over all its cards at once; within a node it has
// the node's links alone.
LinkModel ring_of(int ranks, const ClusterLinks& links);

// Sets `inside`, `across` and `crossings_on_link` from the step's sharding.
void set_links(const ClusterLinks& links, StepModel& step);

}  // namespace wmtp::run
