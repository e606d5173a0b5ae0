// What a run's stage makes of its rows, without training: losses, values and weights by the run's
// own parts, so that the rows of its first step get here what they get there.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "wmtp/comm/session.h"
#include "wmtp/config/config.h"
#include "wmtp/core/json.h"
#include "wmtp/models/scoring/score_lines.h"
#include "wmtp/run/data/run_data.h"
#include "wmtp/run/data/step_reader.h"
#include "wmtp/run/plan/model_plan.h"
#include "wmtp/run/stages/stage_models.h"
#include "wmtp/run/stages/stage_signals.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

struct StageScoreOptions {
  int num_heads = 0;  // the first ones; 0: all
  bool values = false, weights = false;
  // From 1: the rows of that step in its micro-batches. None: all rows in file order, for which
  // weights, which depend on the company, are not asked.
  std::optional<std::int64_t> step;
  std::string checkpoint;  // whose weights and tracker of advantages take the run's place; or empty
  std::string base_model;  // of that checkpoint's adapters; empty: the one it names
};

// Error config for values or weights that the stage does not have.
void require_in_stage(const config::Config& config, const StageScoreOptions& options);

class StageScorer {
 public:
  // BORROWS config and session. COLLECTIVE, BLOCKS: opens data, loads weights. REQUIRES what
  // require_in_stage lets pass. Error config for a step, heads or a checkpoint that do not fit.
  StageScorer(const config::Config& config, const RunContext& context,
              comm::ProcessGroupSession& session, const StageScoreOptions& options);

  const tokenizer::Tokenizer& tokenizer() const { return data_.tokenizer(); }
  OrderedJson header() const;  // {"type":"header"} with the order of the rows
  // COLLECTIVE. Lines as of score_rows. In file order the signals of a frozen model, those of the
  // validation set too, are kept for the run (training.signal_cache).
  models::ScoreSummary run(const models::WriteLine& write);

 private:
  bool reads_frozen() const;  // what is asked for needs the stage's frozen model
  bool fills_cache();
  int num_heads() const { return static_cast<int>(policy_.assemble.model.n_future); }
  void fill_weights();
  StepReader reader(std::unique_ptr<data::Loader> loader, const SignalSource& signals) const;
  void score_batch(const training::DeviceBatch& batch, std::optional<std::size_t> micro_batch,
                   const models::WriteLine& write);
  std::vector<std::vector<float>> head_losses(const training::DeviceBatch& batch);
  training::TokenMarks marks_of(const training::DeviceBatch& batch);
  Tensor signal_of(
      const training::DeviceBatch& batch);  // of the frozen model, unless the batch brings it
  void compute_validation_signals();
  std::uint64_t row_of(std::uint64_t sample_id) const;

  const config::Config& config_;
  RunContext context_;
  comm::ProcessGroupSession& session_;
  StageScoreOptions options_;
  ModelPlan policy_;
  RunData data_;
  StageSignals signals_;
  parallel::Groups groups_;
  StageModels stage_;
  std::unique_ptr<training::TrainableModel> model_;
  models::ScoreSummary summary_;
};

}  // namespace wmtp::run
