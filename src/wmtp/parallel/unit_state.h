// What this rank keeps of each unit between steps: its shard of the trained weights (the master),
// of their gradient, and of the frozen weights. Where a rank shares with nobody (NO_SHARD, one
// rank), the shard is the whole.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/layout/shard_plan.h"
#include "wmtp/parallel/options.h"

namespace wmtp::parallel {

struct UnitState {
  layout::UnitPlan plan;
  DType compute_dtype = kFloat32;
  Tensor master;  // trained shard, padded; undefined if nothing is trained
  Tensor grad;    // of the master's shape, fp32 (fp64) whatever the master's dtype; padding stays 0
  Tensor frozen;  // frozen shard (FULL_SHARD, HYBRID_SHARD) or the whole, in frozen_dtype
  Tensor copy;    // the whole trained part in the compute dtype, where the optimizer keeps it up to
                  // date (NO_SHARD)
};

// Elements [begin, begin + out.numel()) of a parameter into a 1-D fp32 (fp64) CPU tensor: read from
// a file or drawn. Only ranges this rank owns are asked for.
using ReadParam =
    std::function<void(const layout::ParamSpec&, std::int64_t begin, const Tensor& out)>;

std::vector<UnitState> make_unit_states(const std::vector<layout::UnitSpec>& units,
                                        const ParallelOptions& options, const Placement& placement);
// Fills masters, copies and frozen weights; one parameter's range at a time is all the extra
// memory.
void fill_unit_states(std::vector<UnitState>& states, const ParallelOptions& options,
                      const Placement& placement, const ReadParam& fill);

}  // namespace wmtp::parallel
