// What all ranks must have read alike before the first step: nodes with a stale copy of the data or
// of the model would train on, each on its own, and nobody would see it in the numbers.
#pragma once
#include <string>

#include "wmtp/comm/agreement.h"
#include "wmtp/run/data/run_data.h"
#include "wmtp/run/plan/model_plan.h"

namespace wmtp::run {

// By content, not by path: data, tokenizer, the samples drawn, the weights of the base and of the
// stage's frozen model. BLOCKS: reads some of every tensor of the latter.
comm::Facts input_facts(const ModelPlan& plan, const RunData& data,
                        const std::string& base_fingerprint);

}  // namespace wmtp::run
