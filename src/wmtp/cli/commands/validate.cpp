#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "wmtp/cli/command.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/config/derived.h"
#include "wmtp/config/describe.h"
#include "wmtp/config/problems.h"
#include "wmtp/core/log.h"

namespace wmtp::cli {
namespace {

struct ValidateFlags {
  ConfigFlags config;
  bool resolved = false, origins = false, schema = false, docs = false, no_check_paths = false;
  int world_size = 0;
  std::string diff;
};

int print_problems(const Session& session, const config::ConfigError& error) {
  const int code = static_cast<int>(exit_code(error.kind()));
  std::size_t num_shown = 0;
  for (const config::Problem& problem : error.problems()) {
    if (num_shown++ == config::ConfigError::kMaxShown) break;
    if (session.json)
      emit_json("error", {{"kind", "config"},
                          {"code", code},
                          {"message", problem.text},
                          {"hint", ""},
                          {"where", problem.where}});
    else
      std::cerr << problem.where << ": " << problem.text << "\n";
  }
  const std::size_t num_errors = error.problems().size();
  if (!session.json) std::cerr << num_errors << (num_errors == 1 ? " error\n" : " errors\n");
  return code;
}

// Rules that hang on the ranks hold for --world-size alone; --diff compares what both files say.
config::ResolvedConfig load(const ValidateFlags& flags, const std::string& file) {
  config::LoadRequest request = flags.config.request();
  request.file = file;
  request.check_paths = !flags.no_check_paths;
  if (flags.world_size > 0) request.world_size = flags.world_size;
  return config::load_config(request);
}

void print_sizes(const config::Config& config, int world_size) {
  const std::int64_t steps = config::accumulation_steps(config, world_size);
  std::cout << fmt::format(
      "W = {}: batch_size {} x accumulation {} x ranks {} = {} sequences a step\n", world_size,
      config.training.batch_size, steps, world_size,
      config.training.batch_size * steps * world_size);
}

void print_result(const Session& session, const ValidateFlags& flags,
                  const config::ResolvedConfig& resolved) {
  const std::string stage(config::name_of(resolved.config.experiment.stage));
  if (session.json) {
    nlohmann::ordered_json line{{"ok", true}, {"stage", stage}, {"hash", resolved.hash()}};
    if (flags.world_size > 0)
      line["gradient_accumulation_steps"] =
          config::accumulation_steps(resolved.config, flags.world_size);
    if (flags.resolved || flags.origins) line["resolved"] = resolved.to_yaml(flags.origins);
    emit_json("config", line);
    return;
  }
  if (flags.resolved || flags.origins) {
    std::cout << resolved.to_yaml(flags.origins);
    return;
  }
  std::cout << fmt::format("OK {} {}\n", stage, resolved.hash());
  if (flags.world_size > 0) print_sizes(resolved.config, flags.world_size);
}

int print_differences(const Session& session, const config::ResolvedConfig& a,
                      const config::ResolvedConfig& b) {
  const std::vector<std::string> lines = config::differences(a, b);
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
  try {
    const config::ResolvedConfig resolved = load(flags, flags.config.file);
    for (const std::string& notice : resolved.notices) log::warn("config", "{}", notice);
    if (!flags.diff.empty()) return print_differences(session, resolved, load(flags, flags.diff));
    if (!flags.schema && !flags.docs) print_result(session, flags, resolved);
    return 0;
  } catch (const config::ConfigError& error) {
    return print_problems(session, error);
  }
}

}  // namespace

void add_validate(CLI::App& app, Session& session) {
  CLI::App* command =
      app.add_subcommand("validate", "Check a configuration and show what it resolves to");
  command->group(kDataGroup);
  command->footer(
      "  wmtp validate --config run.yaml --origins\n"
      "  wmtp validate --schema > wmtp.schema.json");
  const auto flags = std::make_shared<ValidateFlags>();
  flags->config.add_to(*command, false);
  command->add_flag("--resolved", flags->resolved, "Print the resolved configuration as YAML");
  command->add_flag("--origins", flags->origins, "The same, with where each value came from");
  command->add_flag("--schema", flags->schema, "Print the JSON Schema (needs no --config)");
  command->add_flag("--docs", flags->docs, "Print docs/config.md")->group("");
  command
      ->add_option("--world-size", flags->world_size, "Number of ranks, for the rules that need it")
      ->check(CLI::PositiveNumber);
  command->add_flag("--no-check-paths", flags->no_check_paths,
                    "Inputs need not exist on this machine");
  command->add_option("--diff", flags->diff,
                      "Print the keys that another stage file sets differently");
  command->callback([&session, flags] {
    session.run = [&session, flags] { return run_validate(session, *flags); };
  });
}

}  // namespace wmtp::cli
