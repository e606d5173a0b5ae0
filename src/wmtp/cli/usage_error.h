// From what the parser found wrong to what a person should read.
#pragma once
#include <CLI/CLI.hpp>

#include "wmtp/core/error.h"

namespace wmtp::cli {

// Kind config (78), with the nearest known command or flag where there is one. REQUIRES: `app` in
// the state in which its parse() threw `error`.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace wmtp::cli
