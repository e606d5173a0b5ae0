#include "wmtp/cli/trial/dry_run.h"

#include <fmt/format.h>

#include <iostream>

#include "wmtp/cli/build_info.h"
#include "wmtp/cli/config_run.h"
#include "wmtp/cli/report.h"
#include "wmtp/cli/run_folder.h"
#include "wmtp/cli/run_outlook.h"
#include "wmtp/cli/trial/server_probes.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/models/model_name.h"
#include "wmtp/run/final_export.h"
#include "wmtp/run/rehearsal/rehearse.h"

namespace wmtp::cli {
namespace {

constexpr double kGibibyte = 1 << 30;

void say(const Session& session, const std::string& text) {
  if (!session.json && !text.empty()) std::cout << printable(text) << "\n" << std::flush;
}

// What the rehearsal tells of itself, for the last line, and what the console leaves to people.
class Listener : public tracking::Sink {
 public:
  explicit Listener(bool json) : json_(json) {}
  void sample(const tracking::DecodedSample& sample) override {
    if (!json_ || sample_told_) return;
    sample_told_ = true;
    emit_json("sample", {{"stage", sample.stage},
                         {"text", tracking::render_sample(sample, {})},
                         {"weights", tracking::weights_line(sample)}});
  }
  void progress(const tracking::Progress& progress) override {
    loss = progress.loss;
    step_s = progress.step_time_s;
  }
  void saved(const tracking::SavedCheckpoint& saved) override { save_s = saved.seconds; }

  double loss = 0, step_s = 0, save_s = 0;

 private:
  bool json_, sample_told_ = false;
};

// What rank 0 finds before anything is computed.
class Examination {
 public:
  Examination(const Session& session, const config::ResolvedConfig& resolved,
              const run::RunContext& context, const DryRunRequest& request)
      : session_(session),
        resolved_(resolved),
        config_(resolved.config),
        context_(context),
        request_(request) {}

  void look(TrialFolders& folders) {
    look_at_folders(folders);
    look_at_files();
    look_at_space();
    s3 = probe_s3(
        {config_, models::model_name(config_), request_.start_id, request_.allow_fresh_start},
        context_.environment, request_.offline);
    say(session_, s3);
    mlflow = probe_mlflow(config_, context_.environment, request_.offline);
    say(session_, mlflow);
  }

  ProbeResult s3, mlflow;

 private:
  void look_at_folders(TrialFolders& folders) {
    RunFolderRequest wanted;
    wanted.run_dir = config_.runtime.run_dir;
    wanted.save_dir = config_.checkpoint.save_dir;
    wanted.model = models::model_name(config_);
    wanted.force_unlock = request_.force_unlock;
    require_free(wanted);
    folders.run.emplace(wanted.run_dir, "runtime.run_dir");
    folders.saves.emplace(wanted.save_dir, "checkpoint.save_dir");
    run::require_place_of_final(config_);
  }

  // The run would end with the first problem; the others are told with it.
  void look_at_files() {
    const run::RunCheck check = run::check_run(config_, context_, /*other_machine=*/false);
    CheckedRun checked = shown_check(resolved_, check, context_.world, request_.config_file);
    checked.device = context_.device.is_cuda() ? "cuda" : "cpu";
    checked.memory_bytes = context_.memory_bytes;
    const auto text_of = [](const ShownProblem& one) { return one.where + ": " + one.text; };
    for (std::size_t i = 1; i < checked.problems.size(); ++i)
      log::error("train", "also: {}; {}", text_of(checked.problems[i]), checked.problems[i].hint);
    if (!checked.problems.empty()) {
      const ShownProblem& first = checked.problems.front();
      throw Error(first.kind, "train", text_of(first), first.hint);
    }
    outlook_ = checked.outlook;
    show(checked);
  }

  void show(const CheckedRun& checked) const {
    const std::string stage(config::name_of(config_.experiment.stage));
    if (session_.json) {
      nlohmann::ordered_json line{{"stage", stage}, {"hash", resolved_.hash()}};
      line.update(checked.fields());
      line["checkpoint_bytes"] = *outlook_.checkpoint_bytes;
      emit_json("plan", line);
      return;
    }
    say(session_, fmt::format("{} {}\n{}memory of a rank:\n{}", stage, resolved_.hash(),
                              checked.text(config_), outlook_.memory_table));
  }

  // One whole checkpoint must find room; what retention keeps should.
  void look_at_space() const {
    const auto place = nearest_existing(config_.checkpoint.save_dir);
    std::error_code status;
    const auto space = std::filesystem::space(place, status);
    if (status) return;
    const auto one = static_cast<double>(*outlook_.checkpoint_bytes);
    const auto free = static_cast<double>(space.available);
    const std::string fact =
        fmt::format("checkpoint.save_dir: a checkpoint takes {:.3f} GiB, {:.3f} GiB are free in {}",
                    one / kGibibyte, free / kGibibyte, place.string());
    if (free < one)
      throw Error(ErrorKind::io, "checkpoint", fact, "free space, or save to another folder");
    const double kept = static_cast<double>(config_.checkpoint.save_total_limit.value_or(0)) + 1;
    if (free < kept * one)
      log::warn("checkpoint", "{}: too little for the {:.0f} that are there at a time", fact, kept);
    else
      say(session_, fact);
  }

  const Session& session_;
  const config::ResolvedConfig& resolved_;
  const config::Config& config_;
  run::RunContext context_;
  const DryRunRequest& request_;
  run::RunOutlook outlook_;
};

const char* name_of(run::RehearsalData data) {
  switch (data) {
    case run::RehearsalData::beginnings:
      return "the beginnings of the data files";
    case run::RehearsalData::whole:
      return "the whole data files";
    case run::RehearsalData::as_is:
      break;
  }
  return "the data as it is cached";
}

void show_end(const Session& session, const run::RehearsalEnd& end, const Listener& heard,
              const Examination& found) {
  if (session.json)
    return emit_json("result", {{"dry_run", true},
                                {"data", name_of(end.data)},
                                {"blocks", end.blocks},
                                {"loss", heard.loss},
                                {"step_s", heard.step_s},
                                {"save_s", heard.save_s},
                                {"resumes_from", end.resumes_from},
                                {"s3", printable(found.s3)},
                                {"mlflow", printable(found.mlflow)}});
  if (!end.resumes_from.empty())
    say(session, fmt::format("the run would go on from {}", end.resumes_from));
  say(session, fmt::format("Dry run passed: a step with {} blocks on {}, saved and loaded again; "
                           "nothing of it is left",
                           end.blocks, name_of(end.data)));
}

// COLLECTIVE. Where all ranks write, as rank 0 has made it.
std::filesystem::path agree_on_folder(comm::ProcessGroupSession& group,
                                      const TrialFolders& folders) {
  constexpr const char* kKey = "dry run folder";
  if (group.rank() == 0) group.store().set(kKey, folders.saves->path().string());
  group.gather_group().barrier(kKey);
  return group.store().get(kKey, std::chrono::seconds(60));
}

}  // namespace

void TrialFolders::remove() noexcept {
  if (saves) saves->remove();
  if (run) run->remove();
}

int dry_run(const Session& session, comm::ProcessGroupSession& group,
            const config::ResolvedConfig& resolved, const DryRunRequest& request,
            TrialFolders& folders) {
  constexpr int kStopped = static_cast<int>(ExitCode::preempted_unsaved);
  run::RehearsalContext context;
  context.run = run_context(resolved.config, group.launch(), request.device);
  Examination examination(session, resolved, context.run, request);
  if (group.rank() == 0) examination.look(folders);
  context.folder = agree_on_folder(group, folders);
  context.options = {request.start_id, request.start_id, kVersion, request.allow_fresh_start};
  context.options.offline = true;
  context.console = request.console;
  context.requests = request.requests;
  const auto listener = std::make_shared<Listener>(session.json);
  context.listener = listener;
  context.on_failure = [&group](const std::exception& thrown) {
    group.broadcast_failure(as_error(thrown));
  };
  const run::RehearsalEnd end = run::rehearse(resolved, context, group);
  if (group.rank() == 0) folders.remove();
  if (request.requests.stop()) return kStopped;
  if (group.rank() == 0) show_end(session, end, *listener, examination);
  return 0;
}

}  // namespace wmtp::cli
