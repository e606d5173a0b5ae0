// The course of a rank's memory through a step: what comes and goes beside state and slots. The
// parts run one after the other as Step::run and the objectives drive them:
//   the frozen model's forward; trunk forward; value head; head by head its logits and its
//   backward; the trunk's backward, whose first block finds all activations and whose last one the
//   copies of all gradients that travel in another dtype; the update, beside which the root is
//   gathered for the next step.
// Gradients that do not stand come where their units are opened: the root's with the trunk's
// forward, a head's with its own, a block's with its backward; all of them are there at the update,
// and stay until the next step has waited for it (parallel/pending_updates.h). The frozen model's
// forward comes before that; by the middle of the trunk's they are gone.
// Before the first one weights that are kept in fewer bits are read, a parameter at a time; of a
// GPU in the host's memory. Validation keeps nothing for a backward, so it is never the most.
#pragma once
#include <vector>

#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/run/plan/unit_memory.h"

namespace wmtp::run {

inline constexpr const char* kGradientsRow = "gradients (fp32)";

// Each with the rows that are its own: gradients too where they come and go (frees_grads).
std::vector<MemoryPlan::Moment> step_moments(const MemoryRequest& request, const UnitMemory& units);

}  // namespace wmtp::run
