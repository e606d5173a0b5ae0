#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wmtp/checkpoint/restart_guard.h"
#include "wmtp/cli/build_info.h"
#include "wmtp/cli/command.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/cli/config_run.h"
#include "wmtp/cli/launcher/launch_notes.h"
#include "wmtp/cli/logging/kineto_log.h"
#include "wmtp/cli/logging/logging_keys.h"
#include "wmtp/cli/next_command.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/cli/report.h"
#include "wmtp/cli/run_folder.h"
#include "wmtp/cli/standard_output.h"
#include "wmtp/cli/stop_signals.h"
#include "wmtp/cli/terminal.h"
#include "wmtp/cli/trial/dry_run.h"
#include "wmtp/cli/versions.h"
#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/models/model_name.h"
#include "wmtp/run/final_export.h"
#include "wmtp/run/run_training.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::cli {
namespace {

constexpr int kStoppedSaved = 80, kStoppedNotSaved = 81;

struct TrainFlags {
  ConfigFlags config;
  std::string run_dir, device, resume;
  std::int64_t max_steps = 0;  // 0: not given
  bool allow_fresh_start = false, force_unlock = false, offline = false, dry_run = false;
  std::optional<run::StepRange> profile;
};

config::ResolvedConfig load_run(const TrainFlags& flags, int world) {
  config::LoadRequest request = flags.config.request();
  auto set = [&request](const char* flag, const char* key, const std::string& value) {
    if (!value.empty()) request.flags.emplace_back(flag, fmt::format("{}={}", key, value));
  };
  set("--run-dir", "runtime.run_dir", flags.run_dir);
  set("--device", "runtime.device", flags.device);
  set("--resume", "checkpoint.resume", flags.resume);
  set("--max-steps", "training.max_steps",
      flags.max_steps > 0 ? std::to_string(flags.max_steps) : "");
  request.world_size = world;
  return load_for_process(request);
}

// environment.json: what a reader of the run's numbers wants to know beside them.
OrderedJson environment_of(const comm::ProcessGroupSession& group, c10::Device device) {
  return {{"wmtp", kVersion},
          {"commit", kCommit},
          {"compiler", fmt::format("{}, {}", kCompiler, kBuildType)},
          {"libtorch", find_versions().libtorch_found},
          {"device", device.is_cuda() ? cuda_tables().services.device_info(device.index()).name
                                      : std::string("cpu")},
          {"ranks", group.world()},
          {"threads_per_rank", at::get_num_threads()}};
}

tracking::ConsoleOptions console_options(const Session& session, const config::Config& config) {
  tracking::ConsoleOptions options;
  options.mode = tracking::choose_mode(config.logging.progress,
                                       {session.json, reaches_terminal(STDOUT_FILENO),
                                        comm::process_environment()("SLURM_JOB_ID").has_value()});
  options.columns = [] { return terminal_columns(STDOUT_FILENO); };
  options.style.color = session.color_on(STDOUT_FILENO);
  options.log_interval = config.training.log_interval;
  options.stage = config::name_of(config.experiment.stage);
  return options;
}

// What a restart would only meet again is no part of a restart storm: the launchers do not retry
// it.
bool is_permanent_failure(int code) {
  for (const ExitCode final :
       {ExitCode::numeric, ExitCode::data, ExitCode::storage, ExitCode::config})
    if (code == static_cast<int>(final)) return true;
  return false;
}

// What a start owns until it has written down how it ended.
struct Start {
  std::string id;
  run::RunProgress progress;
  std::optional<RunFolder> folder;  // rank 0
  TrialFolders trial;               // rank 0's, of a dry run
  run::ExitTeller exit_teller;
  std::optional<TimeLimit> limit;
};

checkpoint::StartLine start_line(const comm::LaunchEnv& launch) {
  const bool ours = comm::process_environment()(kNotesVariable).has_value();
  return {launch.job, launch.restart_count, ours ? "launch" : std::string(name_of(launch.source)),
          launch.world, std::nullopt};
}

// COLLECTIVE, BLOCKS. Before any work: whoever comes second is told at once.
void take_folder(comm::ProcessGroupSession& group, const config::Config& config,
                 const TrainFlags& flags, Start& start) {
  if (group.rank() == 0) {
    const std::string model = models::model_name(config);
    start.folder.emplace(
        RunFolderRequest{config.runtime.run_dir,
                         config.checkpoint.save_dir,
                         model,
                         run_id_of(group.launch(), start.id),
                         flags.force_unlock,
                         group.launch().job,
                         {group.launch().job_restarts, group.launch().restart_count}},
        start.progress);
    run::require_place_of_final(config);
  }
  if (const auto notes = comm::process_environment()(kNotesVariable);
      notes && group.launch().local_rank == 0)  // each node has a launcher
    note_checkpoints(*notes, config.checkpoint.save_dir, models::model_name(config));
  group.gather_group().barrier("run folder");
  start.progress.folder = run::FolderOwner::this_run;
}

int exit_code_of(const run::TrainingEnd& ended, const config::Config& config) {
  const bool saved = ended.end == run::RunEnd::stopped_saved;
  if (!saved && ended.end != run::RunEnd::stopped)
    return ended.uploads_pending ? static_cast<int>(ExitCode::retry) : 0;
  const bool resumes = config.checkpoint.resume.kind == config::ResumeFrom::Kind::automatic;
  log::warn("train", "stopped on request at step {}, {}", ended.step,
            !saved    ? "not saved"
            : resumes ? "saved: the same command goes on from here"
                      : "saved: the same command with --resume auto goes on from here");
  return saved ? kStoppedSaved : kStoppedNotSaved;
}

int run_rank(const Session& session, comm::ProcessGroupSession& group, c10::Device device,
             const config::ResolvedConfig& resolved, const TrainFlags& flags, Start& start) {
  const config::Config& config = resolved.config;
  group.agree(facts_of(resolved, group.launch(), device));
  group.connect();
  take_folder(group, config, flags, start);
  open_rank_file(session, group.launch(), config.logging);
  const bool leads = group.rank() == 0;
  StopSignals stop(leads ? config.runtime.stop_file : std::filesystem::path(), *start.limit,
                   start.progress);
  // Clocks differ: the first rank to look speaks for all.
  if (group.store().set_if_absent("time limit", stop.is_too_late(leads) ? "past" : "ahead") ==
      "past")
    return kStoppedNotSaved;
  run::TrainingContext context;
  context.run = run_context(config, group.launch(), device);
  context.options = {run_id_of(group.launch(), start.id), start.id, kVersion,
                     flags.allow_fresh_start, &start.progress};
  context.options.offline = flags.offline;
  context.options.profile = flags.profile;
  if (leads) {
    context.console = console_options(session, config);
    context.environment = environment_of(group, device);
    context.command_after_end = command_after_end(config.runtime.run_dir);
    context.sync_command = command_to_sync(config.runtime.run_dir);
    context.start = {.words = session.words,
                     .config_file = flags.config.file,
                     .user = run::process_user(),
                     .is_job = comm::process_environment()("SLURM_JOB_ID").has_value()};
    context.offline = flags.offline;
    context.exit_teller = &start.exit_teller;
    context.command_after_stop = command_after_stop(
        {session.words, group.world(),
         comm::process_environment()(kNotesVariable).has_value() && group.launch().nodes == 1,
         config.checkpoint.resume.kind == config::ResumeFrom::Kind::automatic});
  }
  context.requests = {.stop = [&stop] { return stop.requested(); },
                      .save_now = [&stop] { return stop.save_requested(); },
                      .grace = [&] { return stop.grace(config.runtime.grace_s); }};
  context.start_line = start_line(group.launch());
  context.on_failure = [&group](const std::exception& thrown) {
    group.broadcast_failure(as_error(thrown));
  };
  return exit_code_of(run::run_training(resolved, context, group), config);
}

int try_rank(const Session& session, comm::ProcessGroupSession& group, c10::Device device,
             const config::ResolvedConfig& resolved, const TrainFlags& flags, Start& start) {
  group.agree(facts_of(resolved, group.launch(), device));
  group.connect();
  StopSignals stop({}, TimeLimit(comm::process_environment(), 0), start.progress);
  DryRunRequest request;
  request.config_file = flags.config.file;
  request.start_id = start.id;
  request.device = device;
  request.console = console_options(session, resolved.config);
  request.console.mode = session.json ? tracking::ConsoleMode::json : tracking::ConsoleMode::lines;
  request.requests = {.stop = [&stop] { return stop.requested(); },
                      .save_now = [] { return false; }};
  request.allow_fresh_start = flags.allow_fresh_start;
  request.force_unlock = flags.force_unlock;
  request.offline = flags.offline;
  return dry_run(session, group, resolved, request, start.trial);
}

int train(Session session, const TrainFlags& flags) {
  ::umask(077);
  let_standard_output_fail();
  set_standard_output_escape(Escape::nothing);  // the console has a bar, and escapes what it shows
  const comm::LaunchEnv launch = discover_launch();
  std::optional<config::ResolvedConfig> resolved;
  RankRun run;
  Start start;
  EarlyRankFile early_file(session, start.progress);
  try {
    resolved = load_run(flags, launch.world);
    if (!flags.dry_run) early_file.expect(launch, resolved->config);
    session = apply_console_keys(session, launch, resolved->config.logging);
    start.limit.emplace(comm::process_environment(), resolved->config.runtime.stop_before_end_s);
    run = make_run(launch, resolved->config);
    if (flags.profile) quiet_kineto(run.options.device);
    set_threads(launch, static_cast<int>(resolved->config.runtime.threads));
  } catch (const std::exception& thrown) {
    return fail_together(session, launch, as_error(thrown));
  }
  if (launch.rank == 0)
    for (const std::string& notice : resolved->notices) log::warn("config", "{}", notice);
  keep_freed_host_memory();
  const c10::Device device = run.options.device;
  if (flags.dry_run) run.options.run_dir.clear();  // nothing is written there
  run.progress = &start.progress;
  run.on_exit = [&start](int code, const std::string& reason) {
    start.trial.remove();
    start.exit_teller.tell(code, reason);
  };
  const int code = run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    start.id = start_id_of(group);
    if (flags.dry_run) return try_rank(session, group, device, *resolved, flags, start);
    return run_rank(session, group, device, *resolved, flags, start);
  });
  if (start.folder && is_permanent_failure(code))
    checkpoint::forget_start(resolved->config.checkpoint.save_dir,
                             models::model_name(resolved->config), start.id);
  return code;
}

}  // namespace

void add_train(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("train", "Fine-tune a model as a configuration says");
  command->group(kTrainingGroup);
  command->footer(
      "  wmtp train --config run.yaml --dry-run\n"
      "  wmtp train --config run.yaml --device cpu --max-steps 20 "
      "--override training.learning_rate=1e-5\n"
      "  wmtp launch --nproc 4 -- train --config run.yaml");
  const auto flags = std::make_shared<TrainFlags>();
  flags->config.add_to(*command);
  command->add_option("--run-dir", flags->run_dir, "Folder of this run (runtime.run_dir)")
      ->type_name("D");
  command->add_option("--device", flags->device, "Where to compute (runtime.device)")
      ->type_name("auto|cuda|cpu");
  command
      ->add_option("--resume", flags->resume,
                   "Go on from the newest good checkpoint, from this one (or a pointer's, a "
                   "run's), or start over (checkpoint.resume)")
      ->type_name("auto|never|PATH");
  command->add_flag(
      "--allow-fresh-start", flags->allow_fresh_start,
      "Checkpoints exist but none verifies, or their bucket does not answer: start over all "
      "the same");
  command->add_flag("--force-unlock", flags->force_unlock,
                    "Take over the lock of a run on another machine that is gone");
  command->add_flag(
      "--offline", flags->offline,
      "Send nothing: what MLflow is to get stays in its spool (mlflow.spool_dir), checkpoints "
      "for storage.s3 in their queue");
  command->add_flag(
      "--dry-run", flags->dry_run,
      "Try the run and leave nothing behind: its files, folders, memory and servers, one step with "
      "two blocks of its model, a save and its reload; exits as the run would");
  command
      ->add_option_function<std::string>(
          "--profile",
          [flags](const std::string& steps) {
            flags->profile = run::step_range(steps, "--profile");
          },
          "Record these optimizer steps, 3 or 10-12: a Chrome trace of each rank and a table of "
          "what took the time, in RUN_DIR/profile")
      ->type_name("STEPS")
      ->excludes("--dry-run");
  command->add_option("--max-steps", flags->max_steps, "Stop after N steps (training.max_steps)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->callback(
      [&session, flags] { session.run = [&session, flags] { return train(session, *flags); }; });
}

}  // namespace wmtp::cli
