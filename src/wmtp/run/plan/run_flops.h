// Arithmetic of a token in a run: what learns three times its forward, what is frozen once, what is
// read from disk not at all.
#pragma once
#include "wmtp/run/plan/model_plan.h"

namespace wmtp::run {

// As MFU counts it: nominal. A frozen model beside it is read.
double model_flops_per_token(const MemoryRequest& request, double span);
// The same of a run. `reads_frozen`: the stage's frozen model is loaded. `span`: see
// flops.h.
double run_flops_per_token(const ModelPlan& policy, bool reads_frozen, double span);

// As HFU counts it: with the blocks that are run again in the backward, and logits of the rows that
// have a target only. `targets`: of all heads, per token.
double executed_flops_per_token(const ModelPlan& policy, bool reads_frozen, double span,
                                double targets);

}  // namespace wmtp::run
