// Everything a run says about itself, on rank 0, to whatever listens (tracking/sink.h). Numbers
// come in reduced; rates and estimates are made here.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "wmtp/config/config.h"
#include "wmtp/core/time.h"
#include "wmtp/run/checkpoints/save_outcome.h"
#include "wmtp/run/checkpoints/train_state.h"
#include "wmtp/run/report/epoch_sums.h"
#include "wmtp/run/report/run_sinks.h"
#include "wmtp/run/report/straggler_watch.h"
#include "wmtp/s3/queue/upload_queue.h"
#include "wmtp/tokenizer/tokenizer.h"
#include "wmtp/training/step.h"

namespace wmtp::run {

struct FoundSpike;  // loss_watch.h
struct ShownBatch;  // batch_view.h

// A finished step as the trainer knows it.
struct StepRecord {
  std::int64_t step = 0;  // from 1
  double epoch = 0;
  training::StepResult result;
  double schedule_factor = 1, min_learning_rate = 0;
  double num_samples = 0;
  double step_time_s = 0, data_wait_s = 0;
  std::int64_t skipped_steps = 0;
  std::uint64_t tokens_seen = 0;  // by the run up to this step
  tracking::RemainingWork remaining;
  std::optional<std::int64_t> next_save_step;  // by the intervals of the configuration
  std::optional<double> next_save_s;           // by checkpoint.save_every_minutes
  training::Metrics measured = {};             // `system/*_gb` and `comm/*`, of all ranks
  training::Metrics readings = {};             // the rest of `system/*`, where there is news
};

// Whether the numbers of `step` are written down: those of the first, of the last, and every
// training.log_interval steps.
bool is_reported(std::int64_t step, std::int64_t num_steps, const config::Config& config);

// Base rates of what the run trains, before the schedule.
struct LearningRates {
  // Of the model's own weights where they learn, else of its adapters, else of its value head.
  double main = 0;
  std::optional<double> lora, value_head;  // absent: there is nothing of the kind
};

struct RunFacts {
  tracking::RunLabels labels;
  std::int64_t num_steps = 0;
  int world = 1;
  LearningRates rates;
  std::function<double(double span)> model_flops;                     // of a token
  std::function<double(double span, double targets)> executed_flops;  // of one with that many
  std::optional<double> peak_flops;                                   // of a device
  std::optional<double> memory_limit_gib;
  std::function<double()> memory_used_gib;  // for the console
  const training::Objective* objective = nullptr;
  const training::StepGraphs* graphs = nullptr;  // null: no step is replayed
};

class RunReport {
 public:
  // BORROWS config.
  RunReport(const config::Config& config, RunSinks sinks, RunFacts facts);

  // BLOCKS, to be called before a save is committed: what was told up to here is where a kill
  // cannot take it away, so that a run which goes on from that save has lost nothing. THREADS: any;
  // may outlive this.
  std::function<void()> keep_told() const;

  void step(const StepRecord& record);
  void validating(std::int64_t step, std::int64_t num_done, std::int64_t num_batches) {
    sinks_.all.validating({step, num_done, num_batches});
  }
  void validation(std::int64_t step, const training::Numbers& numbers, double seconds);
  // Decoded documents and histograms.
  void sample(std::int64_t step, const ShownBatch& shown, const tokenizer::Tokenizer& tokenizer);
  // Of a window that ended with that step; names its stragglers.
  void speeds(std::int64_t step, const RankSpeeds& speeds);
  void spike(const FoundSpike& spike);
  void resumed(std::int64_t step, const std::string& name, int saved_ranks);
  void saving(std::int64_t step) { sinks_.all.saving(step); }
  void saved(const SaveOutcome& outcome);
  void skipped_save(std::int64_t step, bool tell);  // a save that found the writer busy
  void uploads(std::int64_t step, const s3::QueueFigures& figures);  // of this start, so far
  // `next`: what to type next, for the console.
  void finished(const TrainState& state, std::string status,
                const std::vector<std::pair<std::string, std::string>>& paths, std::string next);

 private:
  struct Utilization {
    std::optional<double> mfu, hfu;  // absent: the peak of the device is not known
  };
  tracking::NamedValues step_values(const StepRecord& record, double tokens_per_s,
                                    double samples_per_s, const Utilization& used) const;
  Utilization utilization(double tokens_per_s) const;
  void write(std::int64_t step, tracking::NamedValues values);
  void event(tracking::RunEvent event);

  const config::Config& config_;
  RunSinks sinks_;
  RunFacts facts_;
  Clock::time_point begun_ = Clock::now();
  // Since the last validation.
  EpochSums epoch_;
  Clock::time_point validated_ = Clock::now();
  // Since the last report.
  double tokens_ = 0, squares_ = 0, targets_ = 0, samples_ = 0, seconds_ = 0, wait_s_ = 0;
  double training_s_ = 0, validation_s_ = 0, blocked_s_ = 0;
  std::int64_t num_saves_ = 0, num_failed_saves_ = 0, num_left_out_saves_ = 0;
  std::optional<s3::QueueFigures> uploads_;
  tracking::NamedValues last_validation_, last_step_;
};

}  // namespace wmtp::run
