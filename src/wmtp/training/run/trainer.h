// A training run from its first step to its last: the one loop of all stages. The host reads a
// step's numbers while the next one runs.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "wmtp/comm/session.h"
#include "wmtp/config/config.h"
#include "wmtp/core/time.h"
#include "wmtp/optim/lr_schedule.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/run/events.h"
#include "wmtp/training/run/policy.h"
#include "wmtp/training/run/run_data.h"
#include "wmtp/training/run/run_report.h"
#include "wmtp/training/run/stage_models.h"
#include "wmtp/training/run/step_reader.h"
#include "wmtp/training/run/train_state.h"

namespace wmtp::training {

enum class RunEnd { completed, early_stop, stopped };

class Trainer {
 public:
  // BORROWS config and session. COLLECTIVE, BLOCKS: opens data, loads weights.
  Trainer(const config::Config& config, const RunSite& site, comm::ProcessGroupSession& session);

  // COLLECTIVE. `report` on rank 0, null elsewhere; `stop_requested` is asked before every step and
  // one yes of any rank ends the run on all of them.
  RunEnd run(RunReport* report, const std::function<bool()>& stop_requested);

  // COLLECTIVE: the validation set as it scores now; nothing without one.
  std::optional<Numbers> validate();

  std::int64_t num_steps() const { return num_steps_; }
  RunFacts facts() const;  // for the report
  const config::Config& config() const { return config_; }
  const TrainState& state() const { return state_; }
  const PolicyPlan& policy() const { return policy_; }
  const RunData& data() const { return data_; }
  TrainableModel& model() { return *model_; }
  StageModels& stage() { return stage_; }

 private:
  struct PendingStep {
    PendingResult pending;
    StepRecord record;
    std::vector<std::uint64_t> sample_ids;
  };
  bool run_step(StepReader& reader, bool stop_requested);  // false: the data has ended
  // Reads the numbers of all steps but the newest `keep`, which may still be running.
  void settle(std::size_t keep, RunReport* report);
  void count_skipped(const PendingStep& step, const StepResult& result);
  void validate_and_report(RunReport* report);
  void keep_best(const Numbers& numbers);
  void follow_plateau(double metric, bool higher_is_better);
  void show_sample(RunReport* report);
  StepReader reader_at(const data::Cursor& cursor) const;
  optim::Schedule schedule() const;
  std::uint64_t run_samples() const;  // taken since the run began, over all epochs

  const config::Config& config_;
  RunSite site_;
  comm::ProcessGroupSession& session_;
  PolicyPlan policy_;
  RunData data_;
  StageModels stage_;
  std::unique_ptr<TrainableModel> model_;
  TrainState state_;
  std::int64_t num_steps_ = 0;
  EventClock validations_;
  std::deque<PendingStep> pending_;
  Clock::time_point settled_;  // when the last step's numbers were read
  double waited_s_ = 0;
  bool stop_agreed_ = false;
};

}  // namespace wmtp::training
