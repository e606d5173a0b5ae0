#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <iostream>

#include "wmtp/cli/command.h"
#include "wmtp/cli/launcher/batch_script.h"
#include "wmtp/cli/launcher/rank_environment.h"
#include "wmtp/cli/launcher/supervisor.h"
#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/suggest.h"

namespace wmtp::cli {
namespace {

constexpr int kMaxRanks = 1024;
constexpr int kMaxRestarts = 3;  // of one node

struct LaunchFlags {
  std::string num_ranks = "auto";
  std::optional<int> max_restarts;
  comm::NodeFlags nodes;
  std::string slurm_file;
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
  options.nodes = comm::find_nodes(flags.nodes, comm::process_environment());
  // Whoever started the launchers of several nodes starts them again: after the death of one the
  // others could not know how often it was.
  options.max_restarts =
      flags.max_restarts.value_or(options.nodes.num_nodes == 1 ? kMaxRestarts : 0);
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

// What srun does by itself, or the script in its own way.
void refuse_for_slurm(const CLI::App& command) {
  for (const char* name : {"--node-rank", "--master-addr", "--master-port", "--grace-s",
                           "--log-dir", "--tee", "--bind"})
    if (command.count(name) > 0)
      throw Error(ErrorKind::config, "launch",
                  fmt::format("{} has no place in a batch script", name),
                  "leave it out with --slurm: srun says which rank is where and writes the output");
}

int write_slurm(const LaunchFlags& flags, const CLI::App& command, const Session& session) {
  refuse_for_slurm(command);
  if (flags.num_ranks == "auto")
    throw Error(ErrorKind::config, "launch", "--slurm needs --nproc N",
                "the GPUs of this machine say nothing of those of the nodes");
  BatchRequest request;
  request.program = std::filesystem::read_symlink("/proc/self/exe").string();
  request.command = flags.command;
  request.num_nodes = flags.nodes.num_nodes.value_or(1);
  request.ranks_per_node = parse_num_ranks(flags.num_ranks);
  request.requeues = flags.max_restarts.value_or(kMaxRestarts) > 0;
  request.environment = flags.environment;
  for (const std::string& variable : flags.environment) check_extra_variable(variable);
  write_batch_script(flags.slurm_file, batch_script(request));
  if (session.json)
    emit_json("result", {{"slurm", flags.slurm_file}});
  else
    std::cout << fmt::format("wrote {}; next: sbatch {}\n", flags.slurm_file,
                             shell_word(flags.slurm_file));
  return 0;
}

void add_node_flags(CLI::App& command, comm::NodeFlags& nodes) {
  command.add_option("--nnodes", nodes.num_nodes, "Nodes of the job, each with a launcher")
      ->type_name("M")
      ->check(CLI::Range(1, 65536));
  command.add_option("--node-rank", nodes.node, "Which of them this is, from 0")
      ->type_name("R")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--master-addr", nodes.address, "Node 0, as all nodes reach it")
      ->type_name("A");
  command.add_option("--master-port", nodes.port, "A free port of node 0 to meet at")
      ->type_name("P")
      ->check(CLI::Range(1, 65535));
}

}  // namespace

void add_launch(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("launch", "Start a command on several local ranks");
  command->group(kTrainingGroup);
  command->footer(
      "  wmtp launch --nproc 4 -- train --config run.yaml\n"
      "  wmtp launch --nproc 8 --nnodes 2 --node-rank 0 --master-addr node1 --master-port 29500 "
      "-- train --config run.yaml\n"
      "  wmtp launch --nproc 8 --nnodes 4 --slurm job.sbatch -- train --config run.yaml");
  auto flags = std::make_shared<LaunchFlags>();
  command
      ->add_option("--nproc", flags->num_ranks, "Ranks to start: a number, or auto = one per GPU")
      ->type_name("N|auto")
      ->capture_default_str();
  add_node_flags(*command, flags->nodes);
  command
      ->add_option("--max-restarts", flags->max_restarts,
                   "Restarts in a row without progress [3; 0 on several nodes]")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
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
      ->take_all()
      ->allow_extra_args(false);  // or the `--` before the command would be taken as its end
  command
      ->add_option("--slurm", flags->slurm_file,
                   "Write a batch script for sbatch instead of starting")
      ->type_name("FILE");
  command->add_option("command", flags->command, "What each rank runs")->type_name("-- COMMAND");
  command->callback([&app, &session, flags, command] {
    session.run = [&app, &session, flags, command] {
      check_command(app, *flags);
      if (!flags->slurm_file.empty()) return write_slurm(*flags, *command, session);
      return supervise(make_options(*flags, session));
    };
  });
}

}  // namespace wmtp::cli
