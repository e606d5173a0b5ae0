// A training run from its first step (or the step it resumes at) to its last: the one loop of all
// stages. The host reads a step's numbers while the next one runs.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "wmtp/comm/session.h"
#include "wmtp/config/load.h"
#include "wmtp/core/time.h"
#include "wmtp/optim/lr_schedule.h"
#include "wmtp/run/checkpoints/checkpointer.h"
#include "wmtp/run/checkpoints/train_state.h"
#include "wmtp/run/data/run_data.h"
#include "wmtp/run/data/step_reader.h"
#include "wmtp/run/events.h"
#include "wmtp/run/plan/policy.h"
#include "wmtp/run/report/run_report.h"
#include "wmtp/run/stages/stage_models.h"
#include "wmtp/run/stages/stage_signals.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

enum class RunEnd { completed, early_stop, stopped_saved, stopped };

// What the command line adds to the configuration.
struct TrainerOptions {
  std::string run_id;    // the same on all ranks, and at every start of one job
  std::string start_id;  // of this start; the same on all ranks
  std::string version;   // of the program
  bool allow_fresh_start = false;
  RunProgress* progress = nullptr;  // BORROWED; kept up to date
  // The training thread waits for a save at most this long without progress. Its own rank's: who
  // waits for another rank has the limits of checkpoint::SaveSite.
  std::chrono::milliseconds save_limit = std::chrono::seconds(300);
};

// What people ask of a running run; each is asked before every step, and one yes of any rank
// counts.
struct Requests {
  std::function<bool()> stop;      // save and end
  std::function<bool()> save_now;  // save and go on
};

class Trainer {
 public:
  // BORROWS config and session. COLLECTIVE, BLOCKS: opens data, loads weights, goes back to the
  // newest checkpoint that verifies (checkpoint.resume). REQUIRES what Checkpointer requires.
  Trainer(const config::ResolvedConfig& config, const RunSite& site,
          comm::ProcessGroupSession& session, const TrainerOptions& options);

  // COLLECTIVE. `report` on rank 0, null elsewhere.
  RunEnd run(RunReport* report, const Requests& requests);

  // COLLECTIVE: the validation set as it scores now; nothing without one.
  std::optional<training::Numbers> validate();

  struct Resumption {
    std::string name;
    int saved_ranks = 1;
    std::vector<std::string> config_changes;
  };
  const std::optional<Resumption>& resumption() const { return resumption_; }
  std::int64_t num_steps() const { return num_steps_; }
  RunFacts facts() const;  // for the report; BORROWS this
  const config::Config& config() const { return config_; }
  const TrainState& state() const { return state_; }
  const PolicyPlan& policy() const { return policy_; }
  const RunData& data() const { return data_; }
  training::TrainableModel& model() { return *model_; }
  StageModels& stage() { return stage_; }

 private:
  struct PendingStep {
    training::PendingResult pending;
    StepRecord record;
    std::vector<std::uint64_t> sample_ids;
    std::size_t signals = 0;  // seen when it was started
    Clock::time_point started;
  };
  void resume(const std::string& base_fingerprint);             // of rank 0
  bool run_step(StepReader& reader, const Requests& requests);  // false: the data has ended
  // Reads the numbers of all steps but the newest `keep`, which may still be running.
  void settle(std::size_t keep, RunReport* report);
  void count_skipped(const PendingStep& step, const training::StepResult& result);
  void validate_and_report(RunReport* report);
  SavedState saved_state();
  // `wait` until it is committed.
  void save(bool final, bool wait, RunReport* report);
  // Whether the step the run ends with is committed: saves it unless it is, and if that fails once
  // more.
  bool save_the_end(bool final, RunReport* report);
  bool is_new_best() const;  // validated as the best, and to be saved as such
  bool is_early() const;     // patience is at its end
  // One that finds the writer busy is left out and counted; a requested one is tried again, and a
  // new best waits, for what -best names must be what was validated.
  void save_if_due(std::uint64_t samples_before, RunReport* report);
  void tell_saves(RunReport* report);
  void tell_progress();
  void show_sample(RunReport* report);
  StepReader reader_at(const data::Cursor& cursor) const;
  optim::Schedule schedule() const;
  std::uint64_t run_samples() const;  // taken since the run began, over all epochs

  const config::ResolvedConfig& resolved_;
  const config::Config& config_;
  RunSite site_;
  comm::ProcessGroupSession& session_;
  TrainerOptions options_;
  PolicyPlan policy_;
  RunData data_;
  StageSignals signals_;
  StageModels stage_;
  std::unique_ptr<training::TrainableModel> model_;
  TrainState state_;
  std::int64_t num_steps_ = 0;
  EventClock validations_, saves_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::optional<Resumption> resumption_;
  std::int64_t last_committed_step_ = -1;
  Clock::time_point last_save_;
  std::deque<PendingStep> pending_;
  double waited_s_ = 0;
  bool stop_agreed_ = false, save_agreed_ = false;
  bool save_put_off_ = false;  // the agreed one found the writer busy
  bool busy_told_ = false;     // since the last save
};

}  // namespace wmtp::run
