// How a failure is shown: to the user, to torchrun's agent, and to scripts that read the run
// folder.
#pragma once
#include <exception>
#include <filesystem>
#include <string>

#include "wmtp/cli/command.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {

// What any exception means: an Error as it is, a write to stdout that failed Error io, everything
// else an internal one.
Error as_error(const std::exception& thrown);

// Prints the error (stderr, or a JSON line on stdout where that can be written) and tells the
// agent. Says nothing where the reader of stdout has left. Returns its exit code.
int report(const Session& session, const Error& error);

struct LastExit {
  int code = 0;
  int rank = 0;  // of the rank whose failure it was
  std::string reason;
  std::int64_t step = -1, committed_step = -1;  // -1: none
};
// <run_dir>/last_exit.json, for scripts under launchers that swallow exit codes. Never throws: what
// cannot be written is a warning.
void write_last_exit(const std::filesystem::path& run_dir, const LastExit& exit) noexcept;
// A new run is under way there: how the one before ended says nothing of it. Never throws.
void forget_last_exit(const std::filesystem::path& run_dir) noexcept;

}  // namespace wmtp::cli
