// The subcommands of `wmtp checkpoint`.
#pragma once
#include <filesystem>

#include "wmtp/cli/command.h"

namespace wmtp::cli {

void add_checkpoint_export(CLI::App& checkpoint, Session& session);
void add_checkpoint_inspect(CLI::App& checkpoint, Session& session);
void add_checkpoint_merge_lora(CLI::App& checkpoint, Session& session);
void add_checkpoint_list(CLI::App& checkpoint, Session& session);
void add_checkpoint_prune(CLI::App& checkpoint, Session& session);
void add_checkpoint_pull(CLI::App& checkpoint, Session& session);
void add_checkpoint_push(CLI::App& checkpoint, Session& session);
void add_checkpoint_verify(CLI::App& checkpoint, Session& session);

// `inspect` of a folder that a run saved.
int inspect_saved(const std::filesystem::path& folder, bool tensors, const Session& session);

}  // namespace wmtp::cli
