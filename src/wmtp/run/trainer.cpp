#include "wmtp/run/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/log.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/models/model_name.h"
#include "wmtp/models/token_ids.h"
#include "wmtp/run/checkpoints/resume.h"
#include "wmtp/run/checkpoints/state_check.h"
#include "wmtp/run/plan/flops.h"
#include "wmtp/run/plan/run_flops.h"
#include "wmtp/run/report/run_memory.h"
#include "wmtp/run/report/validation_record.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::run {
namespace {

parallel::Groups groups_of(comm::ProcessGroupSession& session) {
  return {&session.gather_group(), &session.reduce_group()};
}

// Validation at its own interval, else whenever a checkpoint is due.
EventInterval validation_interval(const config::Config& config) {
  const config::Training& training = config.training;
  if (training.eval_every || training.eval_every_steps)
    return {training.eval_every, training.eval_every_steps};
  return {config.checkpoint.save_checkpoint_every, config.checkpoint.save_every_steps};
}

// What every checkpoint of the run says of it.
CheckpointSite checkpoint_site(const config::ResolvedConfig& resolved,
                               const TrainerOptions& options, const PolicyPlan& policy,
                               const RunData& data, const std::string& base_fingerprint) {
  const config::Config& config = resolved.config;
  CheckpointSite site;
  site.save_dir = config.checkpoint.save_dir;
  site.model = models::model_name(config);
  site.run_id = options.run_id;
  site.start_id = options.start_id;
  site.config_yaml = resolved.to_yaml();
  model::ExportExtras extras;
  extras.heads_inside = true;
  if (policy.assemble.value_head) extras.value_head = policy.assemble.value_head->type;
  site.model_config = model::hf_config_text(policy.assemble.model, "float32", extras);
  site.fingerprints = {resolved.hash(), data.train().corpus().data_fingerprint(),
                       data.tokenizer().fingerprint(), base_fingerprint};
  site.version = options.version;
  site.strategy = parallel::name_of(policy.assemble.parallel.strategy);
  site.lora_only = config.checkpoint.save_lora_only;
  site.async = config.checkpoint.async;
  site.keep = config.checkpoint.save_total_limit;
  site.max_failed_saves = config.checkpoint.max_failed_saves;
  return site;
}

training::AssembleOptions with_objective(training::AssembleOptions options,
                                         const StageModels& stage) {
  options.objective = stage.objective();
  return options;
}

// What failing memory does; for tests.
void flip_a_bit(training::TrainableModel& model) {
  for (const parallel::UnitState& state : model.runtime().states())
    if (state.master.defined()) {
      state.master.view(at::kByte).narrow(0, 0, 1).bitwise_xor_(1);
      return;
    }
}

// The generators have no state but their key: with another one the run would not go on exactly.
void require_same_seed(const SavedState& saved, const config::Config& config) {
  const auto& allowed = config.checkpoint.allow_config_change;
  const auto seed = static_cast<std::uint64_t>(config.runtime.seed);
  if (saved.seed == seed ||
      std::find(allowed.begin(), allowed.end(), "runtime.seed") != allowed.end())
    return;
  throw Error(ErrorKind::config, "checkpoint",
              fmt::format("the checkpoint was saved with the seed {}, runtime.seed is {}",
                          saved.seed, seed),
              "go back to that seed, or name runtime.seed in checkpoint.allow_config_change");
}

}  // namespace

Trainer::Trainer(const config::ResolvedConfig& config, const RunSite& site,
                 comm::ProcessGroupSession& session, const TrainerOptions& options)
    : resolved_(config),
      config_(config.config),
      site_(site),
      session_(session),
      options_(options),
      policy_(plan_policy(config_, site)),
      data_(config_, site, policy_, session.gather_group()),
      signals_(config_, site, policy_.frozen, data_, session.gather_group()),
      stage_(config_, site, policy_, groups_of(session), signals_.complete()),
      model_(std::make_unique<training::TrainableModel>(with_objective(policy_.assemble, stage_),
                                                        groups_of(session))),
      validations_(validation_interval(config_), data_.train().size()),
      saves_({config_.checkpoint.save_checkpoint_every, config_.checkpoint.save_every_steps},
             data_.train().size()) {
  if (stage_.frozen()) signals_.follow(*stage_.frozen());
  if (site_.rank == 0)  // who writes checkpoints and the export
    models::settle_token_ids(policy_.assemble.model, policy_.generation_config, &data_.tokenizer());
  state_.cursor = data_.train().cursor_at(0, 0);
  // Rank 0 writes and compares it.
  const std::string base_fingerprint = site_.rank == 0 ? policy_.base_fingerprint() : "";
  checkpointer_ = std::make_unique<Checkpointer>(
      checkpoint_site(resolved_, options_, policy_, data_, base_fingerprint), session_);
  resume(base_fingerprint);
  num_steps_ = state_.step + static_cast<std::int64_t>(data_.steps_from(state_.cursor));
  if (config_.training.max_steps) num_steps_ = std::min(num_steps_, *config_.training.max_steps);
  last_save_ = Clock::now();
  tell_progress();
}

void Trainer::tell_progress() {
  if (!options_.progress) return;
  options_.progress->step = state_.step;
  options_.progress->committed_step = last_committed_step_;
}

void Trainer::resume(const std::string& base_fingerprint) {
  auto found = find_state({config_, models::model_name(config_), options_.run_id, options_.start_id,
                           options_.allow_fresh_start},
                          session_);
  if (!found) return model_->runtime().fill(policy_.fill);
  Resumption resumption{found->name, found->state.layout.world_size, {}};
  const checkpoint::Manifest& saved = found->reader->manifest();
  resumption.config_changes = compare_config(
      models::load_saved_config(found->reader->text("config.yaml"), site_.environment), resolved_,
      base_by_content(saved, config_));
  if (site_.rank == 0) require_base(saved, base_fingerprint, config_);
  require_same_seed(found->state, config_);
  restore(*found, *model_, stage_.ema(), policy_.fill);
  state_ = found->state.train;
  state_.cursor = data::continue_from(found->state.train.cursor,
                                      data_.train().cursor_at(state_.cursor.epoch, 0),
                                      config_.checkpoint.allow_data_change);
  if (found->in_save_dir) {
    last_committed_step_ = state_.step;
    checkpointer_->point(checkpoint::Pointer::latest, state_.step);
    if (state_.best && config_.checkpoint.save_best)
      checkpointer_->point(checkpoint::Pointer::best, state_.best->step);
  }
  resumption_ = std::move(resumption);
}

RunFacts Trainer::facts() const {
  RunFacts facts;
  facts.num_steps = num_steps_;
  facts.world = site_.world;
  facts.objective = &model_->objective();
  const bool reads_frozen = !signals_.complete();
  facts.model_flops = [this, reads_frozen](double span) {
    return run_flops_per_token(policy_, reads_frozen, span);
  };
  facts.executed_flops = [this, reads_frozen](double span, double targets) {
    return executed_flops_per_token(policy_, reads_frozen, span, targets);
  };
  if (config_.runtime.peak_tflops)
    facts.peak_flops = *config_.runtime.peak_tflops * 1e12;
  else if (site_.device.is_cuda())
    facts.peak_flops =
        known_peak_flops(cuda_tables().services.device_info(site_.device.index()).name);
  facts.memory_limit_gib = static_cast<double>(site_.memory_bytes) / (1 << 30);
  facts.memory_used_gib = [device = site_.device] { return peak_memory_gib(device); };
  facts.memory = [device = site_.device] { return report_memory(device); };
  return facts;
}

optim::Schedule Trainer::schedule() const {
  const config::LrScheduler& wanted = config_.training.lr_scheduler;
  optim::Schedule schedule;
  schedule.type = static_cast<optim::ScheduleType>(wanted.type);
  schedule.total_steps = num_steps_;
  schedule.warmup_steps = optim::warmup_steps(num_steps_, wanted.warmup_ratio, wanted.warmup_steps);
  schedule.min_ratio = wanted.min_lr_ratio;
  schedule.plateau_factor = state_.plateau.factor;
  return schedule;
}

StepReader Trainer::reader_at(const data::Cursor& cursor) const {
  return StepReader(data_.train_loader(cursor),
                    {static_cast<int>(policy_.assemble.model.n_future), model_->inv_freq(),
                     static_cast<std::uint64_t>(config_.runtime.seed), signals_.train()});
}

std::uint64_t Trainer::run_samples() const {
  return state_.cursor.epoch * data_.train().size() + state_.cursor.samples_taken;
}

RunEnd Trainer::run(RunReport* report, const Requests& requests) {
  show_sample(report);
  if (config_.training.eval_at_start && !resumption_) validate_and_report(report);
  StepReader reader = reader_at(state_.cursor);
  comm::Watchdog& watchdog = session_.watchdog();
  comm::StepLimit limit(static_cast<double>(config_.distributed.step_timeout_s));
  watchdog.enter("first step", std::chrono::seconds(config_.distributed.first_step_timeout_s));
  bool order_checked = false;
  while (state_.step < num_steps_ && !stop_agreed_ && !is_early()) {
    const auto begun = Clock::now();
    const std::uint64_t samples_before = run_samples();
    if (!run_step(reader, requests)) break;
    if (!order_checked) session_.check_order();
    order_checked = true;
    settle(/*keep=*/1, report);
    const std::int64_t every = config_.distributed.state_check_every;
    if (every > 0 && state_.step % every == 0)
      check_replicated(*model_, session_.reduce_group(), state_.step);
    const bool last = state_.step == num_steps_;
    if (last || validations_.due(state_.step, samples_before, run_samples())) {
      settle(/*keep=*/0, report);
      validate_and_report(report);
    }
    if (!last || !config_.checkpoint.save_final) save_if_due(samples_before, report);
    tell_saves(report);
    limit.add(seconds_since(begun));
    watchdog.enter("step",
                   std::chrono::milliseconds(static_cast<std::int64_t>(limit.limit_s() * 1e3)));
  }
  settle(/*keep=*/0, report);
  watchdog.enter("end of the run", options_.save_limit);
  const bool stopped = stop_agreed_ && state_.step < num_steps_;
  if (stopped) failpoint::pass("stop.agreed");
  if (stopped && !save_the_end(/*final=*/false, report)) return RunEnd::stopped;
  if (!stopped && config_.checkpoint.save_final && !save_the_end(/*final=*/true, report))
    throw Error(ErrorKind::io, "checkpoint",
                fmt::format("the end of the run, step {}, could not be saved", state_.step),
                "the log says why; the same command goes on from the last checkpoint");
  checkpointer_->wait();
  watchdog.enter("end of the run", std::chrono::milliseconds(0));
  tell_saves(report);
  checkpointer_->end_in_order();
  if (stopped) return RunEnd::stopped_saved;
  show_sample(report);
  return state_.step < num_steps_ && is_early() ? RunEnd::early_stop : RunEnd::completed;
}

bool Trainer::is_early() const {
  const auto patience = config_.training.early_stop_patience;
  return patience && state_.validations_without_best >= *patience;
}

bool Trainer::is_new_best() const {
  return config_.checkpoint.save_best && state_.best && state_.best->step == state_.step;
}

bool Trainer::save_the_end(bool final, RunReport* report) {
  for (int tries = 0;; ++tries) {
    checkpointer_->wait();
    tell_saves(report);
    // Others may still be writing, each under its own limit.
    session_.watchdog().enter("end of the run", std::chrono::milliseconds(0));
    // A rank that did not hear of a commit takes part in the next try, which finds it done.
    const bool missing = checkpointer_->any_rank(last_committed_step_ != state_.step);
    if (!missing && final) checkpointer_->point(checkpoint::Pointer::final, state_.step);
    if (!missing || tries == 2) return !missing;
    save(final, /*wait=*/true, report);
  }
}

void Trainer::save_if_due(std::uint64_t samples_before, RunReport* report) {
  const bool at_interval = saves_.due(state_.step, samples_before, run_samples());
  if (!at_interval && !is_new_best() && !save_agreed_) return;
  if (is_new_best() || checkpointer_->is_idle())
    return save(/*final=*/false, /*wait=*/false, report);
  const bool counts = at_interval || !save_put_off_;
  save_put_off_ = save_agreed_;
  if (report && counts) report->left_out(state_.step, /*tell=*/!std::exchange(busy_told_, true));
}

SavedState Trainer::saved_state() {
  SavedState saved;
  saved.train = state_;
  saved.seed = static_cast<std::uint64_t>(config_.runtime.seed);
  saved.applied_updates = model_->optimizer().applied_steps().item<std::int64_t>();
  saved.groups = policy_.assemble.groups.groups;
  saved.planned_steps = num_steps_;
  if (model_->loss_scale()) saved.loss_scale = model_->loss_scale()->state();
  if (stage_.ema()) saved.ema = stage_.ema()->read();
  saved.layout = {site_.world, std::string(parallel::name_of(policy_.assemble.parallel.strategy)),
                  std::string(config::name_of(config_.training.optimizer.precision)),
                  config_.training.batch_size,
                  static_cast<std::int64_t>(data_.shape().accumulation)};
  return saved;
}

void Trainer::save(bool final, bool wait, RunReport* report) {
  settle(/*keep=*/0, report);
  session_.watchdog().enter("save", options_.save_limit);
  if (report) report->saving(state_.step);
  checkpointer_->save(*model_, saved_state(), {.best = is_new_best(), .final = final}, wait);
  save_agreed_ = save_put_off_ = busy_told_ = false;
  last_save_ = Clock::now();
}

void Trainer::tell_saves(RunReport* report) {
  const std::vector<SaveOutcome> ended = checkpointer_->outcomes();
  for (const SaveOutcome& outcome : ended) {
    if (outcome.saved) last_committed_step_ = outcome.step;
    if (report) report->saved(outcome);
  }
  tell_progress();
  for (const SaveOutcome& outcome : ended) checkpointer_->require_no_end(outcome);
}

bool Trainer::run_step(StepReader& reader, const Requests& requests) {
  const auto started = Clock::now();
  std::optional<ReadStep> read = reader.next(state_.step);
  if (!read) return false;
  const optim::Schedule plan = schedule();
  training::StepInput& input = read->input;
  input.schedule_factor = optim::schedule_factor(plan, state_.step);
  if (state_.step >= plan.warmup_steps)
    input.min_learning_rate = config_.training.lr_scheduler.min_lr.value_or(0);
  session_.watchdog().set_step(state_.step + 1);
  const auto minutes = config_.checkpoint.save_every_minutes;
  const bool save_due = site_.rank == 0 && minutes && seconds_since(last_save_) > *minutes * 60;
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
  record.remaining.num_steps = num_steps_ - state_.step;
  record.data_wait_s = reader.wait_seconds() - waited_s_;
  waited_s_ = reader.wait_seconds();
  pending_.push_back(
      {std::move(running), record, std::move(read->sample_ids), signals_.mark(), started});
  return true;
}

void Trainer::settle(std::size_t keep, RunReport* report) {
  while (pending_.size() > keep) {
    PendingStep step = std::move(pending_.front());
    pending_.pop_front();
    training::StepResult result = step.pending.read();
    signals_.write(step.signals);
    failpoint::pass("step.report");
    state_.tokens_seen += static_cast<std::uint64_t>(result.num_tokens);
    stop_agreed_ = stop_agreed_ || result.stop;
    save_agreed_ = save_agreed_ || result.save;
    count_skipped(step, result);
    if (report) {
      // From start to start; of the newest step, to now.
      step.record.step_time_s = seconds_since(step.started) -
                                (pending_.empty() ? 0 : seconds_since(pending_.front().started));
      step.record.skipped_steps = state_.skipped_steps;
      step.record.result = std::move(result);
      report->step(step.record);
    }
  }
}

void Trainer::count_skipped(const PendingStep& step, const training::StepResult& result) {
  if (result.applied) {
    state_.bad_in_a_row = 0;
    return;
  }
  ++state_.skipped_steps;
  if (!result.bad) return;
  ++state_.bad_in_a_row;
  log::warn("train",
            "step {}: the loss, the gradient or a signal is not finite; nothing was updated",
            step.record.step);
  if (state_.bad_in_a_row < config_.training.max_bad_steps) return;
  throw Error(ErrorKind::numeric, "train",
              fmt::format("{} steps in a row were not finite, the last one {} with samples {}",
                          state_.bad_in_a_row, step.record.step, fmt::join(step.sample_ids, ", ")),
              "lower training.learning_rate, or look at those samples (wmtp data inspect)");
}

std::optional<training::Numbers> Trainer::validate() {
  if (!data_.validation()) return std::nullopt;
  session_.watchdog().enter("validation", std::chrono::milliseconds(0));
  StepReader reader(data_.validation_loader(), {static_cast<int>(policy_.assemble.model.n_future),
                                                model_->inv_freq(),
                                                {},
                                                signals_.validation()});
  training::Totals totals = model_->step().make_totals();
  bool begun = false;
  while (const auto next = reader.next_evaluation()) {
    if (!begun) model_->objective().begin_evaluation(next->facts);
    begun = true;
    model_->runtime().begin_evaluation();
    model_->objective().evaluate(next->batch, totals);
  }
  const training::Numbers numbers =
      model_->objective().finish_evaluation(totals, session_.reduce_group());
  signals_.write(signals_.mark());
  return numbers;
}

void Trainer::validate_and_report(RunReport* report) {
  const auto begun = Clock::now();
  const auto numbers = validate();
  if (!numbers) return;
  record_validation(config_, *numbers, state_);
  if (report) report->validation(state_.step, *numbers, seconds_since(begun));
}

void Trainer::show_sample(RunReport* report) {
  const bool from_validation = data_.validation() != nullptr;
  StepReader reader(from_validation ? data_.validation_loader()
                                    : data_.train_loader(data_.train().cursor_at(0, 0)),
                    {static_cast<int>(policy_.assemble.model.n_future),
                     model_->inv_freq(),
                     {},
                     from_validation ? signals_.validation() : signals_.train()});
  const auto next = reader.next_evaluation();
  if (!next) return;
  model_->runtime().begin_evaluation(/*kind=*/2);
  const training::TokenMarks marks = model_->objective().view(next->batch);
  if (report) report->sample(state_.step, next->batch, marks, data_.tokenizer());
}

}  // namespace wmtp::run
