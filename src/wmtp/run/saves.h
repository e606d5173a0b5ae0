// When a run saves, and what came of it: the intervals, what people ask for, new bests and the end.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "wmtp/comm/session.h"
#include "wmtp/config/config.h"
#include "wmtp/core/time.h"
#include "wmtp/run/checkpoints/checkpointer.h"
#include "wmtp/run/plan/events.h"
#include "wmtp/run/report/run_report.h"

namespace wmtp::run {

struct SavesOptions {
  CheckpointOptions checkpoints;
  EventInterval interval;
  std::uint64_t samples_per_epoch = 0;
  std::optional<double> minutes;  // save_every_minutes
  // The training thread waits for a save at most this long without progress.
  std::chrono::milliseconds limit;
  RunProgress* progress = nullptr;  // BORROWED; kept up to date
};

class Saves {
 public:
  // COLLECTIVE, BLOCKS and BORROWS as Checkpointer does.
  Saves(SavesOptions options, comm::ProcessGroupSession& session);

  // The run goes on from a checkpoint of its own folder, whose pointers a kill may have left out.
  void resumed(std::int64_t step, const std::optional<BestRecord>& best);
  // As Checkpointer::prepare, if a save is planned: by time, or for `next_step`.
  void prepare(training::TrainableModel& model, const std::optional<std::int64_t>& next_step);
  void begin(std::int64_t step);  // training begins with this step: publishes it, starts the clock
  bool is_time() const;           // save_every_minutes have passed since the last save
  std::optional<double> seconds_to_timed() const;  // until they will have; nothing without them
  void request() { requested_ = true; }            // all ranks have agreed to save

  // COLLECTIVE. Whether the step that just ended is to be saved. One that finds the writer busy is
  // left out and counted; a requested one is tried again, and a new best waits, for what -best
  // names must be what was validated.
  bool is_due(const TrainState& state, std::uint64_t samples_before, std::uint64_t samples_after,
              bool is_new_best, RunReport* report);
  // COLLECTIVE. `wait` until it is committed.
  void save(training::TrainableModel& model, const SavedState& state, SaveMarks marks, bool wait,
            RunReport* report);
  // COLLECTIVE, BLOCKS. Whether the step the run ends with is committed: calls `save` unless it is,
  // and if that fails once more.
  bool save_end(std::int64_t step, bool final, const std::function<void()>& save,
                RunReport* report);
  // Reports the saves that have ended. Error as Checkpointer::throw_if_too_many_failures.
  void report_ended(std::int64_t step, RunReport* report);
  // COLLECTIVE, BLOCKS until all checkpoints are up, `limit` has passed or any rank is asked to
  // stop; then old ones go that had to wait for that. Whether some are still to go up: they stay
  // queued.
  bool finish_uploads(std::int64_t step, std::chrono::seconds limit,
                      const std::function<bool()>& is_stopped, RunReport* report);
  // BLOCKS until the writer is idle: the run is done or saved, its starts are no restart storm.
  void finish(std::int64_t step, RunReport* report);

 private:
  void publish_progress(std::int64_t step);

  SavesOptions options_;
  comm::ProcessGroupSession& session_;
  EventClock clock_;
  Checkpointer checkpointer_;
  std::int64_t last_committed_step_ = -1;
  Clock::time_point last_save_ = Clock::now();
  bool requested_ = false;
  bool deferred_ = false;   // the requested one found the writer busy
  bool busy_told_ = false;  // since the last save
};

}  // namespace wmtp::run
