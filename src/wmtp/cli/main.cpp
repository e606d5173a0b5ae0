// The program. The only file that exits; everything below throws.
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>

#include "wmtp/cli/build_info.h"
#include "wmtp/cli/command.h"
#include "wmtp/cli/error_file.h"
#include "wmtp/cli/help.h"
#include "wmtp/cli/launcher/parent_watch.h"
#include "wmtp/cli/usage_error.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::cli {
namespace {

int report(const Session& session, const Error& error) {
  const int code = static_cast<int>(exit_code(error.kind()));
  if (session.json)
    emit_json("error", {{"kind", name_of(error.kind())},
                        {"code", code},
                        {"message", error.fact()},
                        {"hint", error.hint()},
                        {"where", error.module()}});
  else
    std::cerr << "wmtp: " + std::string(error.what()) + "\n";
  write_error_file(code, error.what(), error.where().function_name());
  return code;
}

void configure_log(const Session& session) {
  const log::Level level = session.quiet     ? log::Level::warn
                           : session.verbose ? log::Level::debug
                                             : log::Level::info;
  log::configure({.level = level, .json = session.json, .color = session.color_on(STDERR_FILENO)});
}

// Errors of the command line come before --json has been read.
bool asks_for_json(int argc, char** argv) {
  char** const end = std::find(argv, argv + argc, std::string_view("--"));
  return std::find(argv, end, std::string_view("--json")) != end;
}

int run(int argc, char** argv) {
  Session session;
  session.json = asks_for_json(argc, argv);
  session.program = argv[0];
  CLI::App app;
  try {
    set_up_program(app, session);
    add_commands(app, session);
    app.parse(argc, argv);
    configure_log(session);
    return session.run();
  } catch (const CLI::CallForHelp&) {
    std::cout << help_text(chosen_command(app), session.color_on(STDOUT_FILENO)) << std::flush;
    return 0;
  } catch (const CLI::CallForVersion&) {
    std::cout << "wmtp " << kVersion << " (" << kCommit << ")" << std::endl;
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(session, usage_error(app, error));
  } catch (const Error& error) {
    return report(session, error);
  } catch (const std::exception& error) {
    return report(session, Error(ErrorKind::internal, "internal", error.what(),
                                 "this is a bug in wmtp; please report it"));
  }
}

}  // namespace
}  // namespace wmtp::cli

int main(int argc, char** argv) {
  wmtp::cli::watch_launcher();
  return wmtp::cli::run(argc, argv);
}
