#include "wmtp/cli/command.h"

#include <cstdlib>
#include <iostream>

#include "wmtp/cli/build_info.h"
#include "wmtp/cli/help.h"
#include "wmtp/cli/terminal.h"
#include "wmtp/core/time.h"

namespace wmtp::cli {

bool Session::color_on(int fd) const {
  if (color == "always") return true;
  if (color == "never" || std::getenv("NO_COLOR")) return false;
  return reaches_terminal(fd);
}

void emit_json(std::string_view type, const nlohmann::ordered_json& fields, bool stamped) {
  nlohmann::ordered_json line{{"type", type}};
  if (stamped) line["ts"] = utc_timestamp();
  line.update(fields);
  std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

void set_up_program(CLI::App& app, Session& session) {
  app.name("wmtp");
  app.description("wmtp: fine-tune language models with multi-token prediction");
  app.require_subcommand(1);
  app.fallthrough();  // global flags may follow the command
  app.set_help_flag("-h,--help", "Explain the program, or a command");
  app.set_version_flag("--version", kVersion, "Show the version in one line");
  app.add_flag("--json", session.json, "Results and errors as JSON Lines on stdout");
  app.add_flag("-q,--quiet", session.quiet, "Warnings and errors only");
  app.add_flag("-v,--verbose", session.verbose, "Debug messages too");
  app.add_option("--color", session.color, "When to colour")
      ->type_name("auto|always|never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.footer(
      "  wmtp doctor\n"
      "  wmtp validate --config run.yaml\n"
      "  wmtp launch --nproc 2 -- train --config run.yaml");
}

void add_commands(CLI::App& app, Session& session) {
  add_train(app, session);
  add_launch(app, session);
  add_report(app, session);
  add_init(app, session);
  add_validate(app, session);
  add_plan(app, session);
  add_migrate(app, session);
  add_bench(app, session);
  add_data(app, session);
  add_checkpoint(app, session);
  add_score(app, session);
  add_doctor(app, session);
  add_tokenizer(app, session);
  add_version(app, session);
  add_completion(app, session);
}

}  // namespace wmtp::cli
