// The program. The only file that exits; everything below throws.
#include <CLI/CLI.hpp>

#include <exception>
#include <iostream>

#include "wmtp/cli/command.h"
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
    std::cerr << "wmtp: " << error.what() << "\n";
  return code;
}

int run(int argc, char** argv) {
  Session session;
  session.program = argv[0];
  CLI::App app("wmtp: fine-tune language models with multi-token prediction", "wmtp");
  app.require_subcommand(1);
  app.add_flag("--json", session.json, "Results as JSON Lines on stdout");
  app.add_flag("-q,--quiet", session.quiet, "Warnings and errors only");
  app.add_flag("-v,--verbose", session.verbose, "Debug messages too");
  app.add_option("--color", session.color, "auto, always or never")->check(CLI::IsMember({"auto", "always", "never"}));
  add_commands(app, session);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::config);
  }
  try {
    return session.run();
  } catch (const Error& error) {
    return report(session, error);
  } catch (const std::exception& error) {
    return report(session, Error(ErrorKind::internal, "internal", error.what(), "this is a bug in wmtp; please report it"));
  }
}

}  // namespace
}  // namespace wmtp::cli

int main(int argc, char** argv) { return wmtp::cli::run(argc, argv); }
