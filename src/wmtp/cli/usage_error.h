// From what the parser found wrong to what a person should read.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "wmtp/core/error.h"

namespace wmtp::cli {

// Kind config (78), with the nearest known command or flag where there is one, and the whole
// command line as it was meant where that is plain. REQUIRES: `app` in the state in which its
// parse() of `words`, the command line without the program, threw `error`.
Error usage_error(const CLI::App& app, const CLI::ParseError& error,
                  const std::vector<std::string>& words);

}  // namespace wmtp::cli
