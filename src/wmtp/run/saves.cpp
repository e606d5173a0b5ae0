#include "wmtp/run/saves.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wmtp/core/log.h"

namespace wmtp::run {

Saves::Saves(SavesOptions options, comm::ProcessGroupSession& session)
    : options_(std::move(options)),
      session_(session),
      clock_(options_.interval, options_.samples_per_epoch),
      checkpointer_(options_.checkpoints, session) {}

void Saves::resumed(std::int64_t step, const std::optional<BestRecord>& best) {
  last_committed_step_ = step;
  checkpointer_.point(checkpoint::Pointer::latest, step);
  if (best) checkpointer_.point(checkpoint::Pointer::best, best->step);
  checkpointer_.upload(step);
}

void Saves::publish_progress(std::int64_t step) {
  if (!options_.progress) return;
  options_.progress->step = step;
  options_.progress->committed_step = last_committed_step_;
}

void Saves::begin(std::int64_t step) {
  last_save_ = Clock::now();
  publish_progress(step);
}

void Saves::prepare(training::TrainableModel& model, const std::optional<std::int64_t>& next_step) {
  if (next_step || options_.minutes) checkpointer_.prepare(model);
}

std::optional<double> Saves::seconds_to_timed() const {
  if (!options_.minutes) return std::nullopt;
  return *options_.minutes * 60 - seconds_since(last_save_);
}

bool Saves::is_time() const {
  const auto left = seconds_to_timed();
  return left && *left < 0;
}

bool Saves::is_due(const TrainState& state, std::uint64_t samples_before,
                   std::uint64_t samples_after, bool is_new_best, RunReport* report) {
  const bool at_interval = clock_.due(state.step, samples_before, samples_after);
  if (!at_interval && !is_new_best && !requested_) return false;
  if (is_new_best || checkpointer_.is_idle()) return true;
  const bool counts = at_interval || !deferred_;
  deferred_ = requested_;
  if (report && counts) report->skipped_save(state.step, /*tell=*/!std::exchange(busy_told_, true));
  return false;
}

void Saves::save(training::TrainableModel& model, const SavedState& state, SaveMarks marks,
                 bool wait, RunReport* report) {
  session_.watchdog().enter("save", options_.limit);
  if (report) report->saving(state.train.step);
  checkpointer_.save(model, state, marks, wait, report ? report->keep_told() : nullptr);
  requested_ = deferred_ = busy_told_ = false;
  last_save_ = Clock::now();
}

bool Saves::save_end(std::int64_t step, bool final, const std::function<void()>& save,
                     RunReport* report) {
  for (int tries = 0;; ++tries) {
    checkpointer_.wait();
    report_ended(step, report);
    // Others may still be writing, each under its own limit.
    session_.watchdog().enter("end of the run", std::chrono::milliseconds(0));
    // A rank that did not hear of a commit takes part in the next try, which finds it done.
    const bool missing = checkpointer_.any_rank(last_committed_step_ != step);
    if (!missing && final) checkpointer_.point(checkpoint::Pointer::final, step);
    if (!missing || tries == 2) return !missing;
    save();
  }
}

void Saves::report_ended(std::int64_t step, RunReport* report) {
  const std::vector<SaveOutcome> ended = checkpointer_.outcomes();
  for (const SaveOutcome& outcome : ended) {
    if (outcome.saved) last_committed_step_ = outcome.step;
    if (outcome.saved && options_.progress)
      options_.progress->save_ms = std::max(options_.progress->save_ms.load(),
                                            static_cast<std::int64_t>(outcome.seconds * 1e3));
    if (report) report->saved(outcome);
    if (const auto& uploads = options_.checkpoints.uploads; uploads && report && outcome.saved)
      report->uploads(outcome.step, uploads->figures());
  }
  publish_progress(step);
  for (const SaveOutcome& outcome : ended) checkpointer_.throw_if_too_many_failures(outcome);
}

// Looks at each other once a second: no collective waits longer than any of its limits.
bool Saves::finish_uploads(std::int64_t step, std::chrono::seconds limit,
                           const std::function<bool()>& is_stopped, RunReport* report) {
  session_.watchdog().enter("uploads", std::chrono::milliseconds(0));
  CheckpointUploads* uploads = options_.checkpoints.uploads.get();
  const auto begun = Clock::now();
  bool waits = true;
  while (waits) {
    const bool is_late = Clock::now() - begun >= limit;
    const bool is_open = uploads && !is_late && !uploads->wait(std::chrono::seconds(1), is_stopped);
    waits = checkpointer_.any_rank(is_open);
    if (checkpointer_.any_rank(is_stopped())) waits = false;
  }
  const std::size_t num_pending = uploads ? uploads->figures().num_pending : 0;
  if (uploads) checkpointer_.remove_old(step);
  if (uploads && report) report->uploads(step, uploads->figures());
  if (num_pending > 0)
    log::warn(
        "s3", "{} not up yet, and queued: the next start sends what is left",
        num_pending == 1 ? "a checkpoint is" : fmt::format("{} checkpoints are", num_pending));
  return checkpointer_.any_rank(num_pending > 0);
}

void Saves::finish(std::int64_t step, RunReport* report) {
  checkpointer_.wait();
  session_.watchdog().enter("end of the run", std::chrono::milliseconds(0));
  report_ended(step, report);
  checkpointer_.finish_cleanly();
}

}  // namespace wmtp::run
