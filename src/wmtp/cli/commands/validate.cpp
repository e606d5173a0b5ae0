#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "wmtp/cli/command.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/cli/run_outlook.h"
#include "wmtp/config/tables/describe.h"
#include "wmtp/config/yaml/problems.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"

namespace wmtp::cli {
namespace {

struct ValidateFlags {
  ConfigFlags config;
  bool resolved = false, origins = false, schema = false, docs = false, no_check_paths = false;
  int world_size = 0;
  std::string diff;
};

// What is wrong with the configuration itself (78) goes before what is wrong with a file.
int code_of(const std::vector<ShownProblem>& problems) {
  const auto is_config = [](const ShownProblem& one) { return one.kind == ErrorKind::config; };
  const bool any = std::ranges::any_of(problems, is_config);
  return static_cast<int>(exit_code(any ? ErrorKind::config : problems.front().kind));
}

int print_problems(const Session& session, const std::vector<ShownProblem>& problems) {
  std::size_t num_shown = 0;
  for (const ShownProblem& problem : problems) {
    if (num_shown++ == config::ConfigError::kMaxShown) break;
    if (session.json)
      emit_json("error", {{"kind", name_of(problem.kind)},
                          {"code", static_cast<int>(exit_code(problem.kind))},
                          {"message", printable(problem.text)},
                          {"hint", printable(problem.hint)},
                          {"where", problem.where}});
    else
      std::cerr << printable(problem.where + ": " + problem.text +
                             (problem.hint.empty() ? "" : "; " + problem.hint) + "\n");
  }
  const std::size_t num_errors = problems.size();
  if (!session.json) std::cerr << num_errors << (num_errors == 1 ? " error\n" : " errors\n");
  return code_of(problems);
}

std::vector<ShownProblem> shown_problems(const config::ConfigError& error) {
  std::vector<ShownProblem> problems;
  for (const config::Problem& one : error.problems())
    problems.push_back({ErrorKind::config, one.where, one.text, {}, false});
  return problems;
}

// Rules that hang on the ranks hold for --world-size alone; --diff compares what both files say.
config::ResolvedConfig load_validated(const ValidateFlags& flags, const std::string& file,
                                      bool check_paths) {
  config::LoadRequest request = flags.config.request();
  request.file = file;
  request.check_paths = check_paths;
  if (flags.world_size > 0) request.world_size = flags.world_size;
  return load_for_process(request);
}

// Paths that do not exist are found with the rules, what else is wrong with files after them: both
// are told together where nothing but paths is wrong.
struct Validated {
  std::optional<config::ResolvedConfig> resolved;  // absent: the configuration is refused
  std::optional<CheckedRun> run;
  std::vector<ShownProblem> problems;
};

Validated validated(const ValidateFlags& flags) {
  Validated result;
  try {
    result.resolved = load_validated(flags, flags.config.file, !flags.no_check_paths);
  } catch (const config::ConfigError& error) {
    result.problems = shown_problems(error);
    if (flags.no_check_paths) return result;
    try {
      result.resolved = load_validated(flags, flags.config.file, false);
    } catch (const config::ConfigError&) {
      return result;
    }
  }
  result.run = check_files(*result.resolved, std::max(1, flags.world_size), !flags.no_check_paths,
                           flags.config.file);
  const auto told = [](const std::vector<ShownProblem>& before, const ShownProblem& one) {
    const auto colon = one.text.find(": ");
    return colon != std::string::npos &&
           std::ranges::any_of(before, [&](const ShownProblem& other) {
             return other.text.starts_with(one.text.substr(0, colon + 1));
           });
  };
  const std::vector<ShownProblem> before = result.problems;
  for (const ShownProblem& one : result.run->problems)
    if (!told(before, one)) result.problems.push_back(one);
  return result;
}

void print_result(const Session& session, const ValidateFlags& flags, const Validated& result) {
  const config::ResolvedConfig& resolved = *result.resolved;
  const std::string stage(config::name_of(resolved.config.experiment.stage));
  if (session.json) {
    nlohmann::ordered_json line{{"ok", true}, {"stage", stage}, {"hash", resolved.hash()}};
    line.update(result.run->fields());
    if (flags.resolved || flags.origins) line["resolved"] = resolved.to_yaml(flags.origins);
    emit_json("config", line);
    return;
  }
  if (flags.resolved || flags.origins) {
    std::cout << resolved.to_yaml(flags.origins);
    return;
  }
  std::cout << fmt::format("OK {} {}\n", stage, resolved.hash())
            << result.run->text(resolved.config);
}

int print_differences(const Session& session, const ValidateFlags& flags) {
  const bool check_paths = !flags.no_check_paths;
  std::vector<std::string> lines;
  try {
    lines = config::differences(load_validated(flags, flags.config.file, check_paths),
                                load_validated(flags, flags.diff, check_paths));
  } catch (const config::ConfigError& error) {
    return print_problems(session, shown_problems(error));
  }
  for (const std::string& line : lines) {
    if (session.json)
      emit_json("config", {{"difference", line}});
    else
      std::cout << line << "\n";
  }
  if (!session.json)
    std::cout << lines.size() << (lines.size() == 1 ? " difference\n" : " differences\n");
  return 0;
}

int run_validate(const Session& session, const ValidateFlags& flags) {
  if (flags.schema) std::cout << config::json_schema().dump(2) << "\n";
  if (flags.docs) std::cout << config::markdown_reference();
  if (flags.config.file.empty()) {
    if (flags.schema || flags.docs) return 0;
    throw Error(ErrorKind::config, "validate", "--config is missing",
                "give the stage file to check");
  }
  if (!flags.diff.empty()) return print_differences(session, flags);
  const Validated result = validated(flags);
  if (!result.problems.empty()) return print_problems(session, result.problems);
  for (const std::string& notice : result.resolved->notices) log::warn("config", "{}", notice);
  if (!flags.schema && !flags.docs) print_result(session, flags, result);
  return 0;
}

}  // namespace

void add_validate(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "validate", "Check a configuration and the files it names, and show what the run would be");
  command->group(kDataGroup);
  command->footer(
      "  wmtp validate --config run.yaml --world-size 8\n"
      "  wmtp validate --config run.yaml --resolved --origins\n"
      "  wmtp validate --schema > wmtp.schema.json");
  const auto flags = std::make_shared<ValidateFlags>();
  flags->config.add_to(*command, false);
  command->add_flag("--resolved", flags->resolved, "Print the resolved configuration as YAML");
  command->add_flag("--origins", flags->origins, "The same, with where each value came from");
  command->add_flag("--schema", flags->schema, "Print the JSON Schema (needs no --config)");
  command->add_flag("--docs", flags->docs,
                    "Print every key with its default, docs/config.md (needs no --config)");
  command
      ->add_option("--world-size", flags->world_size,
                   "Number of ranks (default 1), for sizes and the rules that need it")
      ->check(CLI::PositiveNumber);
  command->add_flag("--no-check-paths", flags->no_check_paths,
                    "No file is read: inputs need not exist on this machine");
  command->add_option("--diff", flags->diff,
                      "Print the keys that another stage file sets differently");
  command->callback([&session, flags] {
    session.run = [&session, flags] { return run_validate(session, *flags); };
  });
}

}  // namespace wmtp::cli
