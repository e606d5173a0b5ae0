#include "wmtp/run/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/log.h"
#include "wmtp/run/report/batch_view.h"

namespace wmtp::run {
namespace {

bool is_critic(const config::Config& config) {
  return config.experiment.stage == config::Stage::critic;
}

// What the schedule makes of a group's base rate in that step.
double rate_of(double base, const StepRecord& record) {
  return std::max(base * record.schedule_factor, record.min_learning_rate);
}

}  // namespace

bool is_reported(std::int64_t step, std::int64_t num_steps, const config::Config& config) {
  const std::int64_t interval = std::max<std::int64_t>(1, config.training.log_interval);
  return step == 1 || step == num_steps || step % interval == 0;
}

RunReport::RunReport(const config::Config& config, RunSinks sinks, RunFacts facts)
    : config_(config),
      sinks_(std::move(sinks)),
      facts_(std::move(facts)),
      epoch_(config, *facts_.objective) {}

std::function<void()> RunReport::keep_told() const {
  return [queue = sinks_.kept] {
    // A disk that hangs must not hang the save as well, which may go to another one.
    constexpr std::chrono::seconds kLongest(60);
    if (!queue->flush_within(kLongest))
      log::warn("tracking",
                "numbers of the run could not be written within {} s: a kill would lose some",
                kLongest.count());
  };
}

void RunReport::write(std::int64_t step, tracking::NamedValues values) {
  sinks_.kept->take({step, tracking::wall_time_s(), std::move(values)});
}

tracking::NamedValues RunReport::step_values(const StepRecord& record, double tokens_per_s,
                                             double samples_per_s, const Utilization& used) const {
  const training::StepResult& result = record.result;
  tracking::NamedValues values{{"train/loss", result.loss},
                               {"train/grad_norm", result.grad_norm * result.clip_ratio},
                               {"train/grad_norm_pre_clip", result.grad_norm},
                               {"train/grad_clip_ratio", result.clip_ratio},
                               {"train/learning_rate", rate_of(facts_.rates.main, record)},
                               {"train/skipped_steps", static_cast<double>(record.skipped_steps)},
                               {"train/tokens_seen", static_cast<double>(record.tokens_seen)}};
  if (const auto& base = facts_.rates.lora)
    values.emplace_back("train/lora_lr", rate_of(*base, record));
  if (const auto& base = facts_.rates.value_head)
    values.emplace_back("train/value_head_lr", rate_of(*base, record));
  values.insert(values.end(), result.metrics.begin(), result.metrics.end());
  values.emplace_back("perf/tokens_per_sec", tokens_per_s);
  values.emplace_back("perf/samples_per_sec", samples_per_s);
  values.emplace_back("perf/step_time_ms", record.step_time_s * 1e3);
  values.emplace_back("perf/data_wait_ms", record.data_wait_s * 1e3);
  if (facts_.graphs) values.emplace_back("perf/graph_hits", facts_.graphs->hits().rate());
  if (used.mfu) values.emplace_back("perf/mfu", *used.mfu);
  if (used.hfu) values.emplace_back("perf/hfu", *used.hfu);
  return values;
}

RunReport::Utilization RunReport::utilization(double tokens_per_s) const {
  if (!facts_.peak_flops || tokens_ <= 0) return {};
  const double span = squares_ / tokens_;
  const double rate = tokens_per_s / (*facts_.peak_flops * facts_.world);
  return {facts_.model_flops(span) * rate, facts_.executed_flops(span, targets_ / tokens_) * rate};
}

void RunReport::step(const StepRecord& record) {
  epoch_.add(record.result);
  tokens_ += record.result.num_tokens;
  squares_ += record.result.squared_lengths;
  for (const std::int64_t targets : record.result.facts.head_targets)
    targets_ += static_cast<double>(targets);
  samples_ += record.num_samples;
  seconds_ += record.step_time_s;
  wait_s_ += record.data_wait_s;
  training_s_ += record.step_time_s;
  const double seconds = std::max(seconds_, 1e-9);
  const double tokens_per_s = tokens_ / seconds;
  const Utilization used = utilization(tokens_per_s);
  tracking::Progress progress;
  progress.step = record.step;
  progress.num_steps = facts_.num_steps;
  progress.epoch = record.epoch;
  progress.num_epochs = config_.training.n_epochs;
  progress.loss = record.result.loss;
  for (const auto& [name, value] : record.result.metrics)
    if (name == "train/unweighted_ce_loss") progress.unweighted_loss = value;
  progress.learning_rate = rate_of(facts_.rates.main, record);
  progress.grad_norm = record.result.grad_norm;
  progress.samples_per_sec = samples_ / seconds;
  progress.tokens_per_sec = tokens_per_s;
  progress.num_ranks = facts_.world;
  progress.mfu = used.mfu;
  if (facts_.memory_used_gib) progress.memory_used_gib = facts_.memory_used_gib();
  progress.memory_limit_gib = facts_.memory_limit_gib;
  progress.data_wait_ratio = wait_s_ / seconds;
  progress.step_time_s = record.step_time_s;
  progress.remaining = record.remaining;
  progress.next_save_step = record.next_save_step;
  progress.next_save_s = record.next_save_s;
  sinks_.all.progress(progress);
  if (!is_reported(record.step, facts_.num_steps, config_)) return;
  last_step_ = step_values(record, tokens_per_s, samples_ / seconds, used);
  last_step_.insert(last_step_.end(), record.measured.begin(), record.measured.end());
  tracking::NamedValues values = last_step_;  // the summary is of the run, not of its machines
  values.insert(values.end(), record.readings.begin(), record.readings.end());
  write(record.step, std::move(values));
  tokens_ = squares_ = targets_ = samples_ = seconds_ = wait_s_ = 0;
}

void RunReport::validation(std::int64_t step, const training::Numbers& numbers, double seconds) {
  validation_s_ += seconds;
  tracking::Validation shown;
  shown.step = step;
  shown.loss = numbers.loss;
  shown.seconds = seconds;
  if (!is_critic(config_)) shown.perplexity = std::exp(numbers.loss);
  for (const auto& [name, value] : numbers.metrics)
    for (const char* key : {"pairwise_accuracy", "margin", "auc", "value_loss", "excess_loss"})
      if (name == fmt::format("val/{}", key)) shown.others.emplace_back(key, value);
  sinks_.all.validation(shown);
  last_validation_ = {{"val/loss", numbers.loss}};
  if (shown.perplexity) last_validation_.emplace_back("val/perplexity", *shown.perplexity);
  last_validation_.insert(last_validation_.end(), numbers.metrics.begin(), numbers.metrics.end());
  for (const auto& [name, value] : epoch_.take()) last_validation_.emplace_back(name, value);
  last_validation_.emplace_back("perf/epoch_time_sec", seconds_since(validated_));
  validated_ = Clock::now();
  write(step, last_validation_);
}

void RunReport::resumed(std::int64_t step, const std::string& name, int saved_ranks) {
  tracking::Resumed resumed;
  resumed.step = step;
  resumed.name = name;
  resumed.saved_ranks = saved_ranks;
  resumed.num_ranks = facts_.world;
  sinks_.all.resumed(resumed);
}

void RunReport::saved(const SaveOutcome& outcome) {
  if (!outcome.saved) {
    ++num_failed_saves_;
    write(outcome.step, {{"checkpoint/failed_saves", static_cast<double>(num_failed_saves_)}});
    return;
  }
  ++num_saves_;
  blocked_s_ += outcome.blocked_s;
  tracking::SavedCheckpoint saved;
  saved.step = outcome.step;
  saved.name = outcome.name;
  saved.seconds = outcome.seconds;
  saved.blocked_s = outcome.blocked_s;
  sinks_.all.saved(saved);
  write(outcome.step,
        {{"checkpoint/save_s", outcome.seconds}, {"checkpoint/blocked_s", outcome.blocked_s}});
}

void RunReport::skipped_save(std::int64_t step, bool tell) {
  ++num_left_out_saves_;
  write(step, {{"checkpoint/skipped_saves", static_cast<double>(num_left_out_saves_)}});
  if (tell)
    log::warn("checkpoint", "step {} is not saved: the checkpoint before is still being written",
              step);
}

void RunReport::uploads(std::int64_t step, const s3::QueueFigures& figures) {
  uploads_ = figures;
  write(step, {{"s3/bytes_up", static_cast<double>(figures.bytes_up)},
               {"s3/pending", static_cast<double>(figures.num_pending)},
               {"s3/failed_tries", static_cast<double>(figures.failed_tries)},
               {"s3/caller_s", figures.caller_s}});
}

void RunReport::sample(std::int64_t step, const ShownBatch& shown,
                       const tokenizer::Tokenizer& tokenizer) {
  constexpr std::size_t kDocuments = 2;
  for (tracking::DecodedSample& sample :
       decoded_documents(shown.batch, shown.marks, tokenizer, kDocuments)) {
    sample.step = step;
    sample.split = shown.split;
    sample.stage = config::name_of(config_.experiment.stage);
    sinks_.all.sample(sample);
  }
  for (const tracking::Histogram& histogram : batch_histograms(step, shown.batch, shown.marks))
    sinks_.all.histogram(histogram);
}

void RunReport::finished(const TrainState& state, std::string status,
                         const std::vector<std::pair<std::string, std::string>>& paths,
                         std::string next) {
  tracking::RunSummary summary;
  summary.experiment = config_.experiment.name;
  summary.stage = config::name_of(config_.experiment.stage);
  summary.labels = facts_.labels;
  summary.status = std::move(status);
  summary.step = state.step;
  summary.num_steps = facts_.num_steps;
  if (state.best)
    summary.best = tracking::Best{state.best->metric, state.best->value, state.best->step};
  summary.last = last_step_;
  summary.last.insert(summary.last.end(), last_validation_.begin(), last_validation_.end());
  summary.paths = paths;
  summary.paths.emplace_back("metrics", config_.tracking.jsonl_path.string());
  summary.timings_s = {{"training", training_s_},
                       {"validation", validation_s_},
                       {"blocked by saves", blocked_s_},
                       {"tracking", sinks_.kept->caller_s()},
                       {"whole run", seconds_since(begun_)}};
  summary.counts = {{"tokens", static_cast<std::int64_t>(state.tokens_seen)},
                    {"samples", static_cast<std::int64_t>(state.samples_seen)},
                    {"skipped steps", state.skipped_steps},
                    {"checkpoints", num_saves_},
                    {"failed saves", num_failed_saves_},
                    {"skipped saves", num_left_out_saves_}};
  if (uploads_) {
    summary.timings_s.emplace_back("queueing uploads", uploads_->caller_s);
    summary.counts.emplace_back("uploaded bytes", static_cast<std::int64_t>(uploads_->bytes_up));
    summary.counts.emplace_back("uploaded checkpoints", uploads_->folders_up);
    summary.counts.emplace_back("checkpoints not uploaded", uploads_->folders_left_out);
    summary.counts.emplace_back("failed tries of uploads", uploads_->failed_tries);
  }
  if (facts_.graphs) {
    const training::GraphHits& hits = facts_.graphs->hits();
    summary.counts.emplace_back("steps replayed as graphs", hits.hits);
    log::info("train",
              "{} of {} steps were replayed as CUDA graphs (hit rate {:.3f}): {} shapes came, {} "
              "graphs were recorded",
              hits.hits, hits.steps, hits.rate(), hits.num_shapes, hits.num_recorded);
  }
  summary.next = std::move(next);
  summary.has_trained = training_s_ > 0;
  sinks_.all.finished(summary);
}

}  // namespace wmtp::run
