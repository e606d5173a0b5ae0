// A training run from its first step (or the step it resumes at) to its last: the one loop of all
// stages. The host reads a step's numbers while the next one runs.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "wmtp/comm/session.h"
#include "wmtp/config/load.h"
#include "wmtp/run/data/run_data.h"
#include "wmtp/run/data/step_reader.h"
#include "wmtp/run/measured_products.h"
#include "wmtp/run/pending_steps.h"
#include "wmtp/run/plan/events.h"
#include "wmtp/run/plan/model_plan.h"
#include "wmtp/run/plan/remaining.h"
#include "wmtp/run/profile/step_profile.h"
#include "wmtp/run/report/comm_figures.h"
#include "wmtp/run/report/run_report.h"
#include "wmtp/run/report/straggler_watch.h"
#include "wmtp/run/report/system_report.h"
#include "wmtp/run/saved_run.h"
#include "wmtp/run/saves.h"
#include "wmtp/run/stages/stage_models.h"
#include "wmtp/run/stages/stage_signals.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

enum class RunEnd { completed, early_stop, stopped_saved, stopped };

// What people ask of a running run; each is asked before every step, and one yes of any rank
// counts.
struct RunRequests {
  std::function<bool()> stop;      // save and end
  std::function<bool()> save_now;  // save and go on
  // How long the save of a stop may take from the end of the last step: the process leaves with 81
  // then. Empty: no limit.
  std::function<std::chrono::milliseconds()> grace = {};
};

class Trainer {
 public:
  // BORROWS config and session. COLLECTIVE, BLOCKS: opens data, loads weights, goes back to the
  // newest checkpoint that verifies (checkpoint.resume). REQUIRES what Checkpointer requires.
  Trainer(const config::ResolvedConfig& config, const RunContext& context,
          comm::ProcessGroupSession& session, const TrainerOptions& options);

  // COLLECTIVE. `report` on rank 0, null elsewhere.
  RunEnd run(RunReport* report, const RunRequests& requests);

  // COLLECTIVE, BLOCKS. After the run: waits for uploads as checkpoint.upload_wait_s says, or not
  // at all. Whether some are still open.
  bool finish_uploads(bool wait, const RunRequests& requests, RunReport* report);

  // COLLECTIVE: the validation set as it scores now; nothing without one.
  std::optional<training::Numbers> validate(RunReport* report);

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
  const ModelPlan& plan() const { return plan_; }
  const RunData& data() const { return data_; }
  training::TrainableModel& model() { return *model_; }
  StageModels& stage() { return stage_; }

 private:
  void agree_on_inputs(const std::string& base_fingerprint);
  void resume(const std::string& base_fingerprint);
  bool run_step(StepReader& reader, const RunRequests& requests);  // false: the data has ended
  // Reads the numbers of all steps but the newest `keep`, which may still be running.
  void read_pending(std::size_t keep, RunReport* report);
  void validate_and_report(RunReport* report);
  void save(bool final, bool wait, RunReport* report);
  // Validated as the best, and to be saved as such.
  bool is_new_best() const {
    return config_.checkpoint.save_best && state_.best && state_.best->step == state_.step;
  }
  bool is_early() const;  // patience is at its end
  StepReader reader_at(const data::Cursor& cursor) const;
  std::uint64_t run_samples() const;  // taken since the run began, over all epochs

  const config::ResolvedConfig& resolved_;
  const config::Config& config_;
  RunContext context_;
  comm::ProcessGroupSession& session_;
  TrainerOptions options_;
  ModelPlan plan_;
  MeasuredProducts products_;
  RunData data_;
  StageSignals signals_;
  parallel::Groups groups_;
  StageModels stage_;
  std::unique_ptr<training::TrainableModel> model_;
  TrainState state_;
  std::int64_t num_steps_ = 0;
  EventClock validations_;
  RemainingEvents remaining_;
  std::unique_ptr<Saves> saves_;
  std::optional<Resumption> resumption_;
  SystemReport system_;
  PendingSteps pending_;
  CommFigures comm_;
  StragglerWatch stragglers_;
  StepProfile profile_;
  double waited_s_ = 0;
  bool stop_agreed_ = false;
};

}  // namespace wmtp::run
