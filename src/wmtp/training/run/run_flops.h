// Arithmetic of a token in a run, as MFU counts it: what learns three times its forward, what is
// frozen once, what is read from disk not at all.
#pragma once
#include "wmtp/training/run/policy.h"

namespace wmtp::training {

// `reads_frozen`: the stage's frozen model is loaded. `span`: see flops.h.
double run_flops_per_token(const PolicyPlan& policy, bool reads_frozen, double span);

}  // namespace wmtp::training
