// The subcommands of `wmtp checkpoint`.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/cli/command.h"

namespace wmtp::exports {
struct ExportReport;
}

namespace wmtp::cli {

void add_checkpoint_export(CLI::App& checkpoint, Session& session);
void add_checkpoint_import(CLI::App& checkpoint, Session& session);
void add_checkpoint_inspect(CLI::App& checkpoint, Session& session);
void add_checkpoint_merge_lora(CLI::App& checkpoint, Session& session);
void add_checkpoint_list(CLI::App& checkpoint, Session& session);
void add_checkpoint_prune(CLI::App& checkpoint, Session& session);
void add_checkpoint_pull(CLI::App& checkpoint, Session& session);
void add_checkpoint_push(CLI::App& checkpoint, Session& session);
void add_checkpoint_verify(CLI::App& checkpoint, Session& session);

// `inspect` of a folder that a run saved.
int inspect_saved(const std::filesystem::path& folder, bool tensors, const Session& session);

// "7 tensors, 512 bytes in config.json, ...; read back, logits within 0".
std::string written_text(const exports::ExportReport& report);
// What --dtype of `export` and `import` takes.
void add_dtype_option(CLI::App& command, std::string& dtype, const char* help);

}  // namespace wmtp::cli
