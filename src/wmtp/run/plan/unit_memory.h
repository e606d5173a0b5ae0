// What a rank keeps of its units between steps and what it moves them through, in bytes and with
// the padding: what UnitState, Gatherer, Reducer and the optimizer allocate.
#pragma once
#include <cstdint>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/optim/recipe.h"
#include "wmtp/parallel/options.h"

namespace wmtp::run {

struct UnitMemory {
  std::int64_t masters = 0;  // with both moments
  std::int64_t copies = 0, frozen = 0;
  std::vector<std::int64_t> grads;                 // by unit
  std::int64_t kept_gathers = 0, gather_slot = 0;  // kept for the step; the largest that shares
  std::int64_t kept_reductions = 0, reduce_slot = 0;
  std::int64_t uploaded_nf4 = 0;  // cpu_offload: the largest parameter on its way to a slot
  std::int64_t crossing = 0;      // the largest copy of a shard on its way to the other groups
  // Whole gradients that travel in another dtype (NO_SHARD): each unit's copy lives from its
  // backward to the end of the reductions. Of the root apart, which comes last.
  std::int64_t wire_copies = 0, root_wire_copy = 0;
  // The largest all-gather, of a unit that comes and goes and of the root.
  std::int64_t gathered_unit = 0, gathered_root = 0;
  // The largest range of a parameter that is read in fp32 on its way to fewer bits.
  std::int64_t widest_read = 0;
};

// Of the rank that needs most of the moments, which is the last one where recipes keep vectors in
// more bits than matrices: they come last.
UnitMemory unit_memory(const std::vector<layout::UnitSpec>& units,
                       const parallel::ParallelOptions& options, optim::Recipe recipe, int world);

}  // namespace wmtp::run
