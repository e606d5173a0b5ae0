#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "wmtp/cli/command.h"
#include "wmtp/cli/launcher/rank_environment.h"
#include "wmtp/cli/launcher/supervisor.h"
#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/suggest.h"

namespace wmtp::cli {
namespace {

constexpr int kMaxRanks = 1024;

struct LaunchFlags {
  std::string num_ranks = "auto";
  int max_restarts = 3;
  double grace_s = 120;
  std::string log_dir;
  std::string tee = "0";
  std::string bind = "none";
  std::vector<std::string> environment;
  std::vector<std::string> command;
};

int parse_num_ranks(const std::string& text) {
  if (text == "auto")
    return std::max(num_visible_gpus(num_installed_gpus(), std::getenv("CUDA_VISIBLE_DEVICES")), 1);
  int count = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (status != std::errc{} || end != text.data() + text.size() || count < 1 || count > kMaxRanks)
    throw Error(ErrorKind::config, "launch", fmt::format("--nproc {}: not a number of ranks", text),
                fmt::format("give `auto` or 1 to {}", kMaxRanks));
  return count;
}

// The ranks would say the same, N times and later.
void check_command(const CLI::App& app, const LaunchFlags& flags) {
  const std::vector<std::string>& command = flags.command;
  constexpr const char* kExample = "for example: wmtp launch --nproc 2 -- train --config run.yaml";
  std::string name;
  for (const std::string& word : command)
    if (!word.starts_with('-')) {
      name = word;
      break;
    }
  if (name.empty()) throw Error(ErrorKind::config, "launch", "no command to launch", kExample);
  std::vector<std::string> names;
  for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const auto close = nearest(name, names);
    const bool bare_config = name.ends_with(".yaml") || name.ends_with(".yml");
    throw Error(ErrorKind::config, "launch", fmt::format("unknown command `{}` to launch", name),
                close ? fmt::format("did you mean `{}`?", *close)
                : bare_config
                    ? fmt::format("did you mean: wmtp launch --nproc {} -- train --config {}",
                                  flags.num_ranks, shell_word(name))
                    : kExample);
  }
  if (name == "launch")
    throw Error(ErrorKind::config, "launch", "a launched command cannot be `launch` again",
                kExample);
}

LaunchOptions make_options(const LaunchFlags& flags, const Session& session) {
  LaunchOptions options;
  options.num_ranks = parse_num_ranks(flags.num_ranks);
  options.max_restarts = flags.max_restarts;
  options.grace = std::chrono::duration<double>(flags.grace_s);
  options.log_dir = flags.log_dir;
  options.tee_all = flags.tee == "all";
  options.bind_numa = flags.bind == "numa";
  options.json = session.json || std::find(flags.command.begin(), flags.command.end(), "--json") !=
                                     flags.command.end();
  options.extra_environment = flags.environment;
  options.arguments = {"wmtp"};
  if (session.json) options.arguments.emplace_back("--json");
  if (session.quiet) options.arguments.emplace_back("--quiet");
  if (session.verbose) options.arguments.emplace_back("--verbose");
  if (!session.color.empty()) options.arguments.push_back("--color=" + session.color);
  options.arguments.insert(options.arguments.end(), flags.command.begin(), flags.command.end());
  for (const std::string& variable : flags.environment) check_extra_variable(variable);
  return options;
}

}  // namespace

void add_launch(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("launch", "Start a command on several local ranks");
  command->group(kTrainingGroup);
  command->footer(
      "  wmtp launch --nproc 4 -- train --config run.yaml\n"
      "  wmtp launch --nproc auto --log-dir logs --max-restarts 10 -- train --config run.yaml\n"
      "  wmtp launch --nproc 2 -- doctor --collectives");
  auto flags = std::make_shared<LaunchFlags>();
  command
      ->add_option("--nproc", flags->num_ranks, "Ranks to start: a number, or auto = one per GPU")
      ->type_name("N|auto")
      ->capture_default_str();
  command->add_option("--max-restarts", flags->max_restarts, "Restarts in a row without progress")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_option("--grace-s", flags->grace_s, "Seconds to save after a stop signal")
      ->type_name("S")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--log-dir", flags->log_dir, "Complete output of each rank in D/rank_00000.log")
      ->type_name("D");
  command->add_option("--tee", flags->tee, "Show all ranks, or rank 0 and the others' problems")
      ->type_name("all|0")
      ->check(CLI::IsMember({"all", "0"}))
      ->capture_default_str();
  command->add_option("--bind", flags->bind, "Cores and memory of a rank from one NUMA node")
      ->type_name("none|numa")
      ->check(CLI::IsMember({"none", "numa"}))
      ->capture_default_str();
  command->add_option("--env", flags->environment, "A variable for all ranks; repeatable")
      ->type_name("K=V")
      ->expected(1)
      ->take_all();
  command->add_option("command", flags->command, "What each rank runs")->type_name("-- COMMAND");
  command->callback([&app, &session, flags] {
    session.run = [&app, &session, flags] {
      check_command(app, *flags);
      return supervise(make_options(*flags, session));
    };
  });
}

}  // namespace wmtp::cli
