// Completion scripts for shells, made of the command tree. All three walk the line in the same way:
// the words before the cursor that are commands make a path, what follows `--` (`wmtp launch ... --
// train`) is a command line of its own; then they offer the value of the flag before the cursor, or
// the words that may follow the path. Where there is no list, file names.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

namespace wmtp::cli {

std::string bash_script(const CLI::App& app);
std::string zsh_script(const CLI::App& app);
std::string fish_script(const CLI::App& app);

}  // namespace wmtp::cli
