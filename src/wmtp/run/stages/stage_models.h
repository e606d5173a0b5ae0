// What a stage needs besides the model it trains, and the objective made of all: the frozen value
// model of verifiable, the reference of rho1, the tracker of advantages.
#pragma once
#include <memory>
#include <optional>

#include "wmtp/config/config.h"
#include "wmtp/run/plan/model_plan.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/frozen_model.h"
#include "wmtp/weighting/ema.h"

namespace wmtp::run {

class StageModels {
 public:
  // Loads the frozen model where the plan has one. `signals_cached`: every row's signal is on disk,
  // no model is loaded.
  StageModels(const config::Config& config, const RunContext& context, const ModelPlan& policy,
              const parallel::Groups& groups, bool signals_cached = false);

  // The stage's objective; BORROWS this. For AssembleOptions::objective.
  training::MakeObjective objective() const;

  training::FrozenModel* frozen() { return frozen_.get(); }
  weighting::EmaTracker* ema() { return ema_.get(); }  // null: the stage has none

 private:
  std::unique_ptr<training::Objective> make(const training::ModelParts& parts) const;

  const config::Config& config_;
  std::unique_ptr<training::FrozenModel> frozen_;
  std::unique_ptr<weighting::EmaTracker> ema_;
};

}  // namespace wmtp::run
