// What a report needs to know of a run before it begins.
#pragma once
#include "wmtp/run/plan/model_plan.h"
#include "wmtp/run/report/run_report.h"

namespace wmtp::run {

// All but num_steps and the objective. BORROWS plan. `reads_frozen`: the stage's frozen model is
// loaded.
RunFacts run_facts(const config::Config& config, const RunContext& context, const ModelPlan& plan,
                   bool reads_frozen);

}  // namespace wmtp::run
