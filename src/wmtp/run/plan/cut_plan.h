// A run's models with fewer blocks: what a rehearsal steps with, all else being as in the run.
#pragma once
#include <cstdint>
#include <optional>

#include "wmtp/run/plan/model_plan.h"

namespace wmtp::run {

// The model keeps its first `most_blocks` trunk blocks (those it has, if they are fewer) and all
// its prediction heads, with the weights they have in the whole one; a frozen model alike. The
// plan of the memory and the fingerprint stay those of the whole models.
void cut_blocks(ModelPlan& plan, std::int64_t most_blocks);

// plan_model, cut where `most_blocks` is given.
ModelPlan plan_cut_model(const config::Config& config, const RunContext& context,
                         std::optional<std::int64_t> most_blocks);

}  // namespace wmtp::run
