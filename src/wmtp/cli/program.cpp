#include "wmtp/cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "wmtp/cli/build_info.h"
#include "wmtp/cli/command.h"
#include "wmtp/cli/help.h"
#include "wmtp/cli/last_words.h"
#include "wmtp/cli/launcher/parent_watch.h"
#include "wmtp/cli/logging/logging_keys.h"
#include "wmtp/cli/report.h"
#include "wmtp/cli/standard_output.h"
#include "wmtp/cli/stop_signals.h"
#include "wmtp/cli/terminal.h"
#include "wmtp/cli/usage_error.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/log.h"
#include "wmtp/core/log_hook.h"
#include "wmtp/storage/cut_mappings.h"

namespace wmtp::cli {
namespace {

void configure_log(const Session& session) {
  log::configure({.level = level_of_flags(session, log::Level::info),
                  .json = session.json,
                  .color = session.color_on(STDERR_FILENO)});
  if (!session.json && reaches_terminal(STDERR_FILENO))
    log::set_live_screen([] { return terminal_columns(STDERR_FILENO); });
}

void configure_failpoints() {
  const char* spec = std::getenv("WMTP_FAILPOINT");
  if (!failpoint::kCompiledIn || !spec || !*spec) return;
  const char* log_path = std::getenv("WMTP_FAILPOINT_LOG");
  failpoint::configure({.spec = spec,
                        .rank = comm::discover(comm::process_environment()).rank,
                        .log_path = log_path ? log_path : ""});
}

// Errors of the command line come before --json has been read.
bool asks_for_json(int argc, char** argv) {
  char** const end = std::find(argv, argv + argc, std::string_view("--"));
  return std::find(argv, end, std::string_view("--json")) != end;
}

void allow_colours(const Session& session) {
  if (session.color_on(STDOUT_FILENO)) set_standard_output_escape(Escape::all_but_colours);
}

int run_command(CLI::App& app, const Session& session, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    allow_colours(session);
    std::cout << help_text(chosen_command(app), session.color_on(STDOUT_FILENO));
    return 0;
  } catch (const CLI::CallForVersion&) {
    std::cout << "wmtp " << kVersion << " (" << kCommit << ")\n";
    return 0;
  }
  allow_colours(session);
  configure_log(session);
  configure_failpoints();
  return session.run();
}

// What must stand before anything else happens. Async-signal-safe calls only: nothing is
// initialised yet.
void meet_signals(int argc, char** argv, char**) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that left is an error of the write, not an end
  std::signal(SIGXFSZ, SIG_IGN);  // as is a file over the limit
  speak_before_terminate();
  const std::string_view command = command_word(argc, argv);
  if (command == "train" || command == "launch") leave_on_stop_signals();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeetsSignalsEarly = false;  // their own initialisers come first
#else
constexpr bool kMeetsSignalsEarly = true;
// The loader calls this before the initialisers of LibTorch, most of the time to main().
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = meet_signals;
#endif

int run(int argc, char** argv, const AddCommands& add) {
  Session session;
  session.json = asks_for_json(argc, argv);
  session.program = argv[0];
  session.words.assign(argv + 1, argv + argc);
  CLI::App app;
  try {
    watch_launcher();
    set_up_program(app, session);
    add(app, session);
    const int code = run_command(app, session, argc, argv);
    finish_standard_output();
    return code;
  } catch (const CLI::ParseError& error) {
    return report(session, usage_error(app, error, {argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    return report(session, as_error(error));
  }
}

}  // namespace

std::string_view command_word(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--color") ++i;
    if (!word.starts_with('-')) return word;
  }
  return "";
}

int run_program(int argc, char** argv, const AddCommands& add) {
  if (!kMeetsSignalsEarly) meet_signals(argc, argv, nullptr);
  storage::end_on_cut_mappings();
  watch_standard_output();
  const OnlyMainExits rule;
  return run(argc, argv, add);
}

}  // namespace wmtp::cli
