// AdamW over the shards of all units: one launch a unit (and group). Moments live here; they are
// part of the state that is saved.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/core/strong_ids.h"
#include "wmtp/optim/moments.h"
#include "wmtp/optim/param_groups.h"
#include "wmtp/optim/recipe.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::optim {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  Recipe recipe = Recipe::fp32;
  std::uint64_t rounding_seed = 0;  // of the recipes that round stochastically
};

// One unit's trained shard. BORROWS (tensors share storage with the owner's). REQUIRES with
// 8-bit moments that groups change at multiples of kernels::kCodeBlock only, as they do where a
// block's matrices are in one group.
struct TrainedShard {
  layout::BucketPlan plan;
  int rank = 0;         // which part of the plan this shard is
  Tensor master, grad;  // master: the recipe's dtype; fp32 (fp64) in a unit of full precision
  // The lower plane (kernels/codes/planes.h) of a master whose upper one is `master`; undefined: it
  // is all.
  Tensor master_lower = {};
  Tensor compute_copy = {};                      // undefined: none to keep up to date
  UnitId unit = {};                              // as apply() names it
  bool is_block = true, full_precision = false;  // as MomentRules have them
};

// What the step decided, all on the device: a bad step updates nothing and the host need not know
// yet.
struct UpdateControl {
  Tensor grad_scale;  // 0-d fp32 (fp64)
  Tensor apply;       // 0-d int32: 0 = leave everything as it is
  double schedule_factor = 1, min_learning_rate = 0;
};

class AdamW {
 public:
  AdamW(std::vector<TrainedShard> shards, ParamGroups groups, const AdamWSettings& settings);

  // Calls `update`, which enqueues the unit's update on the current STREAM.
  using UpdateUnit = std::function<void(UnitId, const std::function<void()>& update)>;
  // In the order of the shards, each through `update_unit`, which may take another stream. What the
  // updates read of the step stays until the next apply(); by then they must have ended.
  // Shards in host memory (cpu_offload): BLOCKS for the device's verdict, then updates on the CPU.
  void apply(const UpdateControl& control, const UpdateUnit& update_unit = {});
  const Tensor& applied_steps() const { return applied_steps_; }         // 0-d int64 on the device
  const std::vector<ShardMoments>& moments() const { return moments_; }  // by shard
  std::int64_t state_bytes() const;                                      // of the moments

 private:
  void update(std::size_t shard, const GroupRange& range);

  std::vector<TrainedShard> shards_;
  ParamGroups groups_;
  AdamWSettings settings_;
  std::vector<std::vector<GroupRange>> ranges_;
  std::vector<ShardMoments> moments_;
  std::vector<std::uint64_t> streams_;  // of each shard's rounding, the same for all ranks
  Tensor applied_steps_;
  UpdateControl in_use_;  // by the last apply(), with the number of steps before it
  Tensor steps_in_use_;
};

}  // namespace wmtp::optim
