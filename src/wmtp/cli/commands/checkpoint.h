// The subcommands of `wmtp checkpoint`.
#pragma once
#include "wmtp/cli/command.h"

namespace wmtp::cli {

void add_checkpoint_export(CLI::App& checkpoint, Session& session);
void add_checkpoint_inspect(CLI::App& checkpoint, Session& session);
void add_checkpoint_merge_lora(CLI::App& checkpoint, Session& session);

}  // namespace wmtp::cli
