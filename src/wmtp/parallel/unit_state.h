// What this rank keeps of each unit between steps: its shard of the trained weights (the master),
// of their gradient, and of the frozen weights. Where a rank shares with nobody (NO_SHARD, one
// rank), the shard is the whole.
#pragma once
#include <optional>
#include <vector>

#include "wmtp/layout/shard_plan.h"
#include "wmtp/parallel/master.h"
#include "wmtp/parallel/options.h"
#include "wmtp/parallel/quantized_shard.h"

namespace wmtp::parallel {

struct UnitState {
  layout::UnitPlan plan;
  DType compute_dtype = kFloat32;
  Master master;  // trained shard, padded; undefined if nothing is trained
  Tensor grad;    // of the master's shape, fp32 (fp64) whatever the master's dtype; padding stays
                  // 0. With frees_grads it has memory from its backward until its update was
                  // waited for (pending_updates.h)
  Tensor frozen;  // frozen shard (FULL_SHARD, HYBRID_SHARD) or the whole, in frozen_dtype
  std::optional<QuantizedShard> quantized;  // the same in place of it, where parameters are in NF4
  Tensor copy;  // the whole trained part in the compute dtype, where the optimizer keeps it up to
                // date (NO_SHARD) and the master cannot be computed with

  bool has_frozen() const { return frozen.defined() || quantized; }
};

std::vector<UnitState> make_unit_states(const std::vector<layout::UnitSpec>& units,
                                        const ParallelOptions& options, const Placement& placement);

// Where the weights come from. Only ranges this rank owns are asked for.
struct FillSources {
  ReadParam values;
  ReadNf4 stored = {};  // empty: nothing is in NF4 where it comes from
  // The ranks that share frozen weights; null where each has all of them. BORROWS
  comm::Communicator* frozen_group = nullptr;
  // Units of the same shape get the numbers of the first of them, which alone are asked for: for
  // measurements, whose time the drawing of billions of weights would be.
  bool alike = false;
};
// Fills masters, copies and frozen weights; one parameter's range at a time is all the extra
// memory. COLLECTIVE where quantised parameters are sharded.
void fill_unit_states(std::vector<UnitState>& states, const ParallelOptions& options,
                      const Placement& placement, const FillSources& sources);

}  // namespace wmtp::parallel
