#include <fmt/format.h>
#include <sys/stat.h>

#include "wmtp/cli/build_id.h"
#include "wmtp/cli/command.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/cli/report.h"
#include "wmtp/core/log.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {
namespace {

using std::chrono::seconds;

// A rank that cannot even start tells the others, but does not wait long for them.
constexpr seconds kMeetToFail{20};

struct TrainFlags {
  ConfigFlags config;
  std::string run_dir, device;
  std::int64_t max_steps = 0;  // 0: not given
};

config::ResolvedConfig load(const TrainFlags& flags, int world) {
  ConfigFlags config = flags.config;
  if (!flags.run_dir.empty()) config.overrides.push_back("runtime.run_dir=" + flags.run_dir);
  if (!flags.device.empty()) config.overrides.push_back("runtime.device=" + flags.device);
  if (flags.max_steps > 0)
    config.overrides.push_back(fmt::format("training.max_steps={}", flags.max_steps));
  config::LoadRequest request = config.request();
  request.world_size = world;
  return config::load_config(request);
}

RankRun make_run(const comm::LaunchEnv& launch, const config::Config& config) {
  RankRun run;
  run.launch = launch;
  run.allow_shared_gpu = config.distributed.allow_shared_gpu;
  comm::SessionOptions& options = run.options;
  options.device = choose_device(launch, {std::string(config::name_of(config.runtime.device)),
                                          config.distributed.allow_shared_gpu});
  options.rendezvous.timeout = seconds(config.distributed.rendezvous_timeout_s);
  options.rendezvous.interface = config.distributed.interface.value_or("");
  options.rendezvous.port = static_cast<int>(config.distributed.port.value_or(0));
  options.agreement_timeout = seconds(config.distributed.agreement_timeout_s);
  options.backend = config::name_of(config.distributed.backend);
  options.run_dir = config.runtime.run_dir;
  return run;
}

comm::Facts facts_of(const config::ResolvedConfig& resolved) {
  comm::Facts facts;
  facts.must_agree["wmtp build"] = build_id();
  for (auto& [key, value] : resolved.flat()) facts.config[key] = value;
  return facts;
}

void make_run_folder(const config::ResolvedConfig& resolved) {
  const std::filesystem::path& folder = resolved.config.runtime.run_dir;
  std::error_code status;
  std::filesystem::create_directories(folder, status);
  if (status)
    throw Error(
        ErrorKind::io, "train",
        fmt::format("cannot create the run folder {}: {}", folder.string(), status.message()),
        "choose another with --run-dir");
  storage::write_file_atomically(folder / "config.yaml", resolved.to_yaml());
}

int run_rank(comm::ProcessGroupSession& group, const config::ResolvedConfig& resolved) {
  group.agree(facts_of(resolved));
  group.connect();
  if (group.rank() == 0) make_run_folder(resolved);
  throw Error(ErrorKind::internal, "train", "training is not in this version",
              "`wmtp validate` and `wmtp doctor` check the configuration and the machine");
}

// A failure before the meeting: meet only to tell the others, so that none waits in vain.
int fail_together(const Session& session, const comm::LaunchEnv& launch, const Error& error) {
  if (launch.world == 1) throw error;
  RankRun run;
  run.launch = launch;
  run.options.rendezvous.timeout = kMeetToFail;
  try {
    return run_as_rank(session, std::move(run),
                       [&error](comm::ProcessGroupSession&) -> int { throw error; });
  } catch (const Error&) {
    throw error;  // the others did not come; our own reason is the better one
  }
}

int train(const Session& session, const TrainFlags& flags) {
  ::umask(077);
  const comm::LaunchEnv launch = discover_launch();
  std::optional<config::ResolvedConfig> resolved;
  RankRun run;
  try {
    resolved = load(flags, launch.world);
    run = make_run(launch, resolved->config);
  } catch (const Error& error) {
    return fail_together(session, launch, error);
  }
  if (launch.rank == 0)
    for (const std::string& notice : resolved->notices) log::warn("config", "{}", notice);
  set_threads(launch, static_cast<int>(resolved->config.runtime.threads));
  return run_as_rank(session, std::move(run), [&resolved](comm::ProcessGroupSession& group) {
    return run_rank(group, *resolved);
  });
}

}  // namespace

void add_train(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("train", "Fine-tune a model as a configuration says");
  command->group(kTrainingGroup);
  command->footer(
      "  wmtp train --config run.yaml\n"
      "  wmtp train --config run.yaml --device cpu --max-steps 20 "
      "--override training.learning_rate=1e-5\n"
      "  wmtp launch --nproc 4 -- train --config run.yaml");
  const auto flags = std::make_shared<TrainFlags>();
  flags->config.add_to(*command);
  command->add_option("--run-dir", flags->run_dir, "Folder of this run (runtime.run_dir)")
      ->type_name("D");
  command->add_option("--device", flags->device, "Where to compute (runtime.device)")
      ->type_name("auto|cuda|cpu");
  command->add_option("--max-steps", flags->max_steps, "Stop after N steps (training.max_steps)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->callback(
      [&session, flags] { session.run = [&session, flags] { return train(session, *flags); }; });
}

}  // namespace wmtp::cli
