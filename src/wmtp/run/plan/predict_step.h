// What a step of a sharded run takes, from what its parts take: a simulation of one rank that
// follows the order of parallel::Gatherer and parallel::Reducer (what is started when, and what
// waits for what). Numbers only: no tensor, no device, no other rank.
#pragma once
#include <optional>
#include <vector>

#include "wmtp/run/plan/step_timeline.h"

namespace wmtp::run {

// Groups of `group` ranks hold every unit together; the groups are replicas of each other.
struct Sharding {
  int ranks = 1;
  int group = 1;              // divides ranks
  bool gathers_once = false;  // a unit stays gathered for the rest of the step

  static Sharding full_shard(int ranks) { return {ranks, ranks, false}; }
  static Sharding shard_grad_op(int ranks) { return {ranks, ranks, true}; }
  static Sharding no_shard(int ranks) { return {ranks, 1, false}; }
  static Sharding hybrid_shard(int ranks, int group) { return {ranks, group, false}; }
  int replicas() const { return ranks / group; }
};

// How a backend makes its collectives. All of them are rings: of W ranks each sends (W - 1) / W of
// the tensor in W - 1 hops to gather it or to reduce and scatter it, and twice that to all-reduce.
struct BackendModel {
  bool scatters = true;  // false: a reduce-scatter is an all-reduce
  int lanes = 1;         // collectives of one communicator that run at once

  static BackendModel nccl() { return {true, 1}; }
  static BackendModel gloo() { return {false, 2}; }  // c10d gives each group two threads
};

// Seconds and bytes are those of one micro-batch on one rank.
struct UnitModel {
  double gather_bytes = 0;  // the whole unit, compute dtype
  double reduce_bytes = 0;  // the whole gradient, reduce dtype; 0: nothing is trained
  double forward_s = 0, backward_s = 0;
  bool kept = false;  // the root: held for the whole pass, first and last
  bool head = false;  // its backward follows its forward at once
};

struct StepModel {
  std::vector<UnitModel> units;  // kept ones first, then in the order of forward
  Sharding sharding;
  BackendModel backend;
  LinkModel inside;                 // between the ranks of a group
  std::optional<LinkModel> across;  // between the replicas; absent: they share `inside`
  // Where they share it: ranks whose crossings take the same link at once, as those of a node do
  // that a ring leaves only once.
  double crossings_on_link = 1;
  int prefetch_forward = 1, prefetch_backward = 1;  // units ahead
  int micro_batches = 1;
  bool no_sync = false;  // gradients are reduced in the last micro-batch only
  double loss_s = 0;     // of a micro-batch, between forward and backward
  double update_s = 0;   // of a step
  // The step's first gathers start behind the update of their units, while others are updated.
  bool gathers_behind_update = true;
};

// step_s = compute_s + slowed_s + the three waits.
struct StepPrediction {
  double step_s = 0;
  double compute_s = 0;  // with nothing on the links
  double slowed_s = 0;   // what communication beside it adds
  double gather_wait_s = 0, reduce_wait_s = 0, cross_wait_s = 0;
  double comm_s = 0;  // all collectives one after the other
};

// A step among many, the first ones left out. REQUIRES what the fields say.
StepPrediction predict_step(const StepModel& model);

}  // namespace wmtp::run
