#include "wmtp/run/run_training.h"

#include <optional>

#include "wmtp/core/log.h"
#include "wmtp/data/summary.h"
#include "wmtp/models/trainable.h"
#include "wmtp/run/final_export.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tracking/run_files.h"

namespace wmtp::run {
namespace {

// Only once the checkpoint has been taken: a start that is refused leaves the files of the run that
// worked.
void write_run_files(const config::ResolvedConfig& resolved, const OrderedJson& environment) {
  const auto& run_dir = resolved.config.runtime.run_dir;
  storage::write_file_atomically(run_dir / "config.yaml", resolved.to_yaml());
  tracking::RunFiles(run_dir).environment(environment);
}

// Says what of the model is trained and what the data is, before the first step, and adds both to
// what environment.json says.
void report_inputs(const Trainer& trainer, OrderedJson& environment) {
  const auto trainable =
      models::trainable_parameters(training::trainable_units(trainer.plan().assemble));
  log::info("train", "{}", trainable.summary());
  for (const std::string& line : trainable.lines()) log::info("train", "  {}", line);
  environment["trainable"] = trainable.to_json();
  const auto report_set = [&environment](const char* split, const data::Dataset& set) {
    const data::DataSummary summary = data::summarize(set);
    for (const std::string& line : data::to_lines(summary)) log::info("data", "{} {}", split, line);
    environment["data"][split] = data::to_json(summary);
  };
  report_set("train", trainer.data().train());
  if (trainer.data().validation()) report_set("validation", *trainer.data().validation());
}

TrackedRun tracked_run(const config::ResolvedConfig& resolved, const Trainer& trainer,
                       const OrderedJson& environment) {
  const data::Dataset* validation = trainer.data().validation();
  return {
      .resolved = resolved,
      .environment = environment,
      .model = trainer.plan().assemble.model,
      .train_digest = trainer.data().train().corpus().data_fingerprint(),
      .validation_digest = validation != nullptr ? validation->corpus().data_fingerprint() : ""};
}

ToldOfRun told_of(const config::ResolvedConfig& resolved, const Trainer& trainer,
                  const OrderedJson& environment, const TrainingContext& context) {
  const TrackedRun run = tracked_run(resolved, trainer, environment);
  const Redactor redact(context.run.environment);
  TrackedStart start = context.start;
  start.run_uid = trainer.state().run_uid;
  return {.run_uid = start.run_uid,
          .from_step = trainer.state().step,
          .params = tracked_params(run, redact),
          .tags = tracked_tags(run, start, redact),
          .inputs = tracked_inputs(run, redact),
          .sync_command = context.sync_command,
          .environment = context.run.environment,
          .offline = context.offline};
}

void report_start(const Trainer& trainer, RunReport& report) {
  if (!trainer.plan().recompute_reason.empty())
    log::info("train", "{}", trainer.plan().recompute_reason);
  const auto& resumption = trainer.resumption();
  if (!resumption) return;
  for (const std::string& change : resumption->config_changes)
    log::info("train", "changed since the checkpoint: {}", change);
  report.resumed(trainer.state().step, resumption->name, resumption->saved_ranks);
}

RunEnd run_loop(Trainer& trainer, RunReport* report, const TrainingContext& context) {
  try {
    return trainer.run(report, context.requests);
  } catch (const std::exception& thrown) {
    context.on_failure(thrown);
    throw;
  }
}

const char* status_of(RunEnd end) {
  switch (end) {
    case RunEnd::completed:
      return "completed";
    case RunEnd::early_stop:
      return "early_stop";
    case RunEnd::stopped_saved:
    case RunEnd::stopped:
      break;
  }
  return "stopped";
}

}  // namespace

TrainingEnd run_training(const config::ResolvedConfig& resolved, const TrainingContext& context,
                         comm::ProcessGroupSession& session) {
  Trainer trainer(resolved, context.run, session, context.options);
  RunSinks sinks;
  std::optional<RunReport> report;
  if (session.rank() == 0) {
    OrderedJson environment = context.environment;
    report_inputs(trainer, environment);
    write_run_files(resolved, environment);
    sinks = open_sinks(resolved.config, context.console,
                       told_of(resolved, trainer, environment, context));
    if (context.exit_teller) context.exit_teller->attach(sinks);
    report.emplace(resolved.config, sinks, trainer.facts());
    report_start(trainer, *report);
    checkpoint::StartLine line = context.start_line;
    if (trainer.resumption()) line.resumed_step = trainer.state().step;
    checkpoint::append_start(resolved.config.runtime.run_dir, line);
  }
  const RunEnd end = run_loop(trainer, report ? &*report : nullptr, context);
  std::vector<std::pair<std::string, std::string>> paths;
  if (end == RunEnd::completed || end == RunEnd::early_stop)
    if (const auto folder = export_final(trainer, resolved.to_yaml(), session))
      paths.emplace_back(tracking::kFinalPath, folder->string());
  const bool stopped = end == RunEnd::stopped || end == RunEnd::stopped_saved;
  const bool pending =
      trainer.finish_uploads(/*wait=*/!stopped, context.requests, report ? &*report : nullptr);
  if (report) {
    report->finished(trainer.state(), status_of(end), paths,
                     stopped ? context.command_after_stop : context.command_after_end);
    send_results(sinks, resolved.config, paths.empty() ? "" : paths.front().second);
  }
  return {end, trainer.state().step, pending && !context.options.offline};
}

}  // namespace wmtp::run
