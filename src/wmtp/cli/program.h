// What a program of wmtp is around its commands: signals, flags of all commands, and every failure
// as one message and one exit code. Everything below throws; nothing but a main() that returns what
// run_program() returns exits, except ranks that are stuck (rank_run.cpp) or orphaned
// (launcher/parent_watch.cpp) and mapped files that were cut (storage/cut_mappings.cpp).
#pragma once
#include <functional>
#include <string_view>

#include "wmtp/cli/command.h"

namespace wmtp::cli {

using AddCommands = std::function<void(CLI::App& app, Session& session)>;

// The exit code. BLOCKS until the command has ended.
int run_program(int argc, char** argv, const AddCommands& add);

// The word that names the command; empty: none. --color is the one flag before it with a value of
// its own.
std::string_view command_word(int argc, char** argv);

}  // namespace wmtp::cli
