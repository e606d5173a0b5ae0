// The course of a rank's memory through a step: what comes and goes beside state and slots. The
// parts run one after the other as Step::run and the objectives drive them:
//   the frozen model's forward; trunk forward; value head; head by head its logits and its
//   backward; the trunk's backward, whose first block finds all activations and whose last one the
//   copies of all gradients that travel in another dtype; the update, beside which the root is
//   gathered for the next step.
// Validation keeps nothing for a backward, so it is never the most.
#pragma once
#include <vector>

#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/run/plan/unit_memory.h"

namespace wmtp::run {

// Each with the rows that are its own.
std::vector<MemoryPlan::Moment> step_moments(const MemoryRequest& request, const UnitMemory& units);

}  // namespace wmtp::run
