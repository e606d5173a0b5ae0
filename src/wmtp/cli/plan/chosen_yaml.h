// What `wmtp plan --choose` writes: a whole section `distributed` and the batch keys that go with
// it.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/cli/plan/plan_flags.h"
#include "wmtp/cli/plan/plan_result.h"

namespace wmtp::cli {

// Where it goes to a file (`flags.out`) it extends the configuration it was chosen for, if that
// makes exactly the chosen one; otherwise its keys are to be put into that. REQUIRES result.chosen.
std::string chosen_yaml(const PlanFlags& flags, const PlanResult& result);

}  // namespace wmtp::cli
