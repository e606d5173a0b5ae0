// Makes a run fit into the memory of its ranks: the least that is recomputed, the widest copy of a
// frozen model.
#pragma once
#include <cstdint>

#include "wmtp/run/plan/memory_plan.h"

namespace wmtp::run {

struct FitChoices {
  bool recompute = true;  // false: request.recompute is given
  bool shard_frozen =
      false;  // true: request.other may be sharded, and is before more is recomputed
};

// Sets request.recompute and request.other->shard to the first choice that needs no more than
// `limit_bytes`. Error config with the table of the last one, and what to change, if none does.
void fit_memory(MemoryRequest& request, std::int64_t limit_bytes, const FitChoices& choices = {});

}  // namespace wmtp::run
