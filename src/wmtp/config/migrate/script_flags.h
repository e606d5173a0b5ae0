// What the flags of FSDP training scripts are here.
#pragma once
#include <string>

#include "wmtp/config/migrate/rewriter.h"
#include "wmtp/config/migrate/script_call.h"

namespace wmtp::config {

// Takes one flag of the script into the draft.
void take_script_flag(Rewriter& rewriter, const ScriptFlag& flag, Place place);
// Takes one flag of torchrun or accelerate; returns the flags of `wmtp launch` that it becomes.
std::string take_launcher_flag(Rewriter& rewriter, const ScriptFlag& flag, Place place);

}  // namespace wmtp::config
