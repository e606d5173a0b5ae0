#include "wmtp/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/models/model_name.h"
#include "wmtp/models/token_ids.h"
#include "wmtp/run/checkpoints/resume.h"
#include "wmtp/run/checkpoints/state_check.h"
#include "wmtp/run/evaluate.h"
#include "wmtp/run/facts.h"
#include "wmtp/run/input_facts.h"
#include "wmtp/run/plan/cut_plan.h"
#include "wmtp/run/plan/from_config.h"
#include "wmtp/run/profile/time_table.h"
#include "wmtp/run/report/loss_watch.h"
#include "wmtp/run/report/public_text.h"
#include "wmtp/run/report/run_uid.h"
#include "wmtp/run/report/validation_record.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::run {
namespace {

training::AssembleOptions with_objective(training::AssembleOptions options,
                                         const StageModels& stage) {
  options.objective = stage.objective();
  return options;
}

}  // namespace

Trainer::Trainer(const config::ResolvedConfig& config, const RunContext& context,
                 comm::ProcessGroupSession& session, const TrainerOptions& options)
    : resolved_(config),
      config_(config.config),
      context_(context),
      session_(session),
      options_(options),
      plan_(plan_cut_model(config_, context, options.most_blocks)),
      products_(config_.runtime, context),
      data_(config_, context, plan_, session.gather_group()),
      signals_(config_, context, plan_.frozen, data_, session.gather_group()),
      groups_(parallel::groups_of(session, plan_.assemble.parallel)),
      stage_(config_, context, plan_, groups_, signals_.complete()),
      model_(std::make_unique<training::TrainableModel>(with_objective(plan_.assemble, stage_),
                                                        groups_)),
      validations_(validation_interval(config_), data_.train().size()),
      remaining_(config_, {data_.train().size(), data_.shape().samples_per_step()},
                 data_.validation() != nullptr),
      system_(config_, context.device),
      comm_(groups_.all()),
      stragglers_(rank_hosts(session)),
      profile_(options.profile, config_.runtime.run_dir, context) {
  if (stage_.frozen()) signals_.follow(*stage_.frozen());
  if (context_.rank == 0)  // who writes checkpoints and the export
    models::resolve_token_ids(plan_.assemble.model, plan_.generation_config, &data_.tokenizer());
  state_.cursor = data_.train().cursor_at(0, 0);
  const std::string base_fingerprint = plan_.base_fingerprint();
  agree_on_inputs(base_fingerprint);
  CheckpointOptions checkpoints =
      checkpoint_options(resolved_, options_, plan_, data_, base_fingerprint);
  if (context_.rank == 0)
    checkpoints.uploads =
        open_uploads(config_, checkpoints.model, context_.environment, options_.offline);
  saves_ = std::make_unique<Saves>(SavesOptions{.checkpoints = std::move(checkpoints),
                                                .interval = save_interval(config_),
                                                .samples_per_epoch = data_.train().size(),
                                                .minutes = config_.checkpoint.save_every_minutes,
                                                .limit = options_.save_limit,
                                                .progress = options_.progress},
                                   session_);
  resume(base_fingerprint);
  state_.run_uid = agree_run_uid(config_, state_.run_uid, options_.start_id, session_);
  num_steps_ = state_.step + static_cast<std::int64_t>(data_.steps_from(state_.cursor));
  if (config_.training.max_steps) num_steps_ = std::min(num_steps_, *config_.training.max_steps);
  profile_.plan(state_.step, num_steps_);
  saves_->begin(state_.step);
}

void Trainer::agree_on_inputs(const std::string& base_fingerprint) {
  if (context_.world == 1) return;
  comm::Facts facts = input_facts(plan_, data_, base_fingerprint);
  session_.gather_group().barrier("clock");
  facts.clock_s = tracking::wall_time_s();
  session_.agree(std::move(facts), "inputs");
}

void Trainer::resume(const std::string& base_fingerprint) {
  auto found = find_state({config_, models::model_name(config_), options_.run_id, options_.start_id,
                           options_.allow_fresh_start, options_.offline},
                          session_);
  if (!found) return model_->runtime().fill(plan_.fill, plan_.stored_nf4);
  Resumption resumption{found->name, found->state.layout.world_size, {}};
  resumption.config_changes = require_same_run(
      *found, resolved_, context_.rank == 0 ? base_fingerprint : "", context_.environment);
  restore(*found, *model_, stage_.ema(), {plan_.fill, plan_.stored_nf4});
  state_ = found->state.train;
  state_.cursor = data::continue_from(found->state.train.cursor,
                                      data_.train().cursor_at(state_.cursor.epoch, 0),
                                      config_.checkpoint.allow_data_change);
  if (!found->in_save_dir) state_.run_uid.clear();  // another run begins from it
  if (found->in_save_dir)
    saves_->resumed(state_.step, config_.checkpoint.save_best ? state_.best : std::nullopt);
  resumption_ = std::move(resumption);
}

RunFacts Trainer::facts() const {
  RunFacts facts = run_facts(config_, context_, plan_, /*reads_frozen=*/!signals_.complete());
  facts.labels = run_labels(resolved_);
  facts.num_steps = num_steps_;
  facts.objective = &model_->objective();
  facts.graphs = model_->step().graphs();
  return facts;
}

StepReader Trainer::reader_at(const data::Cursor& cursor) const {
  return StepReader(data_.train_loader(cursor),
                    {static_cast<int>(plan_.assemble.model.n_future), model_->inv_freq(),
                     models::DropoutKey{.seed = static_cast<std::uint64_t>(config_.runtime.seed),
                                        .sites = model_->dropout_sites()},
                     signals_.train(), plan_.assemble.step.batch_shape()});
}

std::uint64_t Trainer::run_samples() const {
  return state_.cursor.epoch * data_.train().size() + state_.cursor.samples_taken;
}

RunEnd Trainer::run(RunReport* report, const RunRequests& requests) {
  show_sample({plan_, data_, *model_, signals_}, state_.step, report);
  if (config_.training.eval_at_start && !resumption_) validate_and_report(report);
  StepReader reader = reader_at(state_.cursor);
  comm::Watchdog& watchdog = session_.watchdog();
  comm::StepLimit limit(static_cast<double>(config_.distributed.step_timeout_s));
  watchdog.enter("first step", std::chrono::seconds(config_.distributed.first_step_timeout_s));
  const std::int64_t first_step = state_.step + 1;
  while (state_.step < num_steps_ && !stop_agreed_ && !is_early()) {
    const auto begun = Clock::now();
    const std::uint64_t samples_before = run_samples();
    profile_.begin(state_.step + 1);
    if (!run_step(reader, requests)) break;
    profile_.end(state_.step, session_);
    products_.keep();
    if (state_.step == first_step) {
      session_.check_order();
      saves_->prepare(*model_, remaining_.next_save({state_.step, run_samples()}, num_steps_));
    }
    read_pending(/*keep=*/1, report);
    const std::int64_t every = config_.distributed.state_check_every;
    if (every > 0 && state_.step % every == 0)
      check_replicated(*model_, session_.reduce_group(), state_.step);
    const bool last = state_.step == num_steps_;
    if (last || validations_.due(state_.step, samples_before, run_samples()))
      validate_and_report(report);
    const bool may_save = !last || !config_.checkpoint.save_final;
    if (may_save && saves_->is_due(state_, samples_before, run_samples(), is_new_best(), report))
      save(/*final=*/false, /*wait=*/false, report);
    saves_->report_ended(state_.step, report);
    limit.add(seconds_since(begun));
    watchdog.enter("step",
                   std::chrono::milliseconds(static_cast<std::int64_t>(limit.limit_s() * 1e3)));
  }
  read_pending(/*keep=*/0, report);
  profile_.abandon(state_.step);
  watchdog.enter("end of the run", options_.save_limit);
  const bool stopped = stop_agreed_ && state_.step < num_steps_;
  if (stopped && requests.grace) watchdog.limit_stop(requests.grace());
  if (stopped) failpoint::pass("stop.agreed");
  const auto save_end = [&](bool final) {
    return saves_->save_end(
        state_.step, final, [&] { save(final, /*wait=*/true, report); }, report);
  };
  const bool left_unsaved = stopped && !save_end(/*final=*/false);
  watchdog.limit_stop(std::chrono::milliseconds(0));
  if (left_unsaved) return RunEnd::stopped;
  if (!stopped && config_.checkpoint.save_final && !save_end(/*final=*/true))
    throw Error(ErrorKind::io, "checkpoint",
                fmt::format("the end of the run, step {}, could not be saved", state_.step),
                "the log says why; the same command goes on from the last checkpoint");
  saves_->finish(state_.step, report);
  if (stopped) return RunEnd::stopped_saved;
  show_sample({plan_, data_, *model_, signals_}, state_.step, report);
  return state_.step < num_steps_ && is_early() ? RunEnd::early_stop : RunEnd::completed;
}

bool Trainer::finish_uploads(bool wait, const RunRequests& requests, RunReport* report) {
  if (!config_.checkpoint.s3_upload) return false;
  const std::chrono::seconds limit(wait && !options_.offline ? config_.checkpoint.upload_wait_s
                                                             : 0);
  return saves_->finish_uploads(state_.step, limit, requests.stop, report);
}

bool Trainer::is_early() const {
  const auto patience = config_.training.early_stop_patience;
  return patience && state_.validations_without_best >= *patience;
}

void Trainer::save(bool final, bool wait, RunReport* report) {
  read_pending(/*keep=*/0, report);
  saves_->save(*model_,
               saved_state(state_, num_steps_, {config_, context_, plan_, data_, *model_, stage_}),
               {.best = is_new_best(), .final = final}, wait, report);
}

bool Trainer::run_step(StepReader& reader, const RunRequests& requests) {
  const ProfileScope scope(kStepScope, state_.step + 1);
  const auto started = Clock::now();
  comm_.begin_step(is_reported(state_.step + 1 + CommFigures::kStepsToRead, num_steps_, config_) ||
                   stragglers_.is_sampled(state_.step + 1));
  std::optional<ReadStep> read = reader.next(state_.step);
  if (!read) return false;
  const optim::Schedule plan =
      lr_schedule(config_.training.lr_scheduler, num_steps_, state_.plateau.factor);
  training::StepInput& input = read->input;
  input.schedule_factor = optim::schedule_factor(plan, state_.step);
  if (state_.step >= plan.warmup_steps)
    input.min_learning_rate = config_.training.lr_scheduler.min_lr.value_or(0);
  session_.watchdog().set_step(state_.step + 1);
  const bool save_due = context_.rank == 0 && saves_->is_time();
  training::PendingResult running =
      model_->step().run(input, {.stop = requests.stop(), .save = save_due || requests.save_now()});
  if (failpoint::pass("step.weights") == failpoint::Action::damage) flip_a_bit(*model_);
  const std::uint64_t samples_before = run_samples();
  ++state_.step;
  state_.cursor = read->cursor_after;
  const std::uint64_t num_samples = run_samples() - samples_before;
  state_.samples_seen += num_samples;
  StepRecord record;
  record.step = state_.step;
  record.epoch = static_cast<double>(run_samples()) / static_cast<double>(data_.train().size());
  record.schedule_factor = input.schedule_factor;
  record.min_learning_rate = input.min_learning_rate;
  record.num_samples = static_cast<double>(num_samples);
  record.remaining = remaining_.after({state_.step, run_samples()}, num_steps_);
  record.next_save_step = remaining_.next_save({state_.step, run_samples()}, num_steps_);
  record.next_save_s = saves_->seconds_to_timed();
  record.data_wait_s = reader.wait_seconds() - waited_s_;
  waited_s_ = reader.wait_seconds();
  comm_.end_step(record.data_wait_s);
  SystemNumbers system;
  if (is_reported(state_.step, num_steps_, config_))
    system = system_.gather(session_.reduce_group(), comm_.numbers());
  RankNumbers own_times =
      stragglers_.gather(state_.step, session_.reduce_group(), [this] { return comm_.take_own(); });
  pending_.push({std::move(running), record, std::move(read->sample_ids), signals_.mark(),
                 std::move(system), std::move(own_times), started});
  return true;
}

void Trainer::read_pending(std::size_t keep, RunReport* report) {
  while (std::optional<PendingStep> step = pending_.read(keep)) {
    const training::StepResult& result = step->record.result;
    signals_.write(step->signals);
    failpoint::pass("step.report");
    state_.tokens_seen += static_cast<std::uint64_t>(result.num_tokens);
    stop_agreed_ = stop_agreed_ || result.stop;
    if (result.save) saves_->request();
    count_skipped(*step, config_.training.max_bad_steps, state_);
    step->record.skipped_steps = state_.skipped_steps;
    step->record.tokens_seen = state_.tokens_seen;
    const auto speeds = stragglers_.compare(step->record.step, step->own_times.rows());
    const auto spike = watch_loss(config_.runtime.loss_spike, step->record, state_.losses);
    if (report) {
      report->step(step->record);
      if (speeds) report->speeds(step->record.step, *speeds);
      if (spike) report->spike(*spike);
    }
    if (spike) stop_at_spike(config_.runtime.loss_spike, *spike, step->sample_ids);
  }
}

std::optional<training::Numbers> Trainer::validate(RunReport* report) {
  if (!data_.validation()) return std::nullopt;
  const ProfileScope scope("validation");
  session_.watchdog().enter("validation", std::chrono::milliseconds(0));
  return evaluate({plan_, data_, *model_, signals_}, session_.reduce_group(),
                  [&](std::int64_t num_done, std::int64_t num_batches) {
                    if (report) report->validating(state_.step, num_done, num_batches);
                  });
}

void Trainer::validate_and_report(RunReport* report) {
  read_pending(/*keep=*/0, report);
  const auto begun = Clock::now();
  const auto numbers = validate(report);
  if (!numbers) return;
  record_validation(config_, *numbers, state_);
  if (report) report->validation(state_.step, *numbers, seconds_since(begun));
}

}  // namespace wmtp::run
