#include "wmtp/run/stages/stage_models.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/run/plan/from_config.h"
#include "wmtp/training/objectives/critic.h"
#include "wmtp/training/objectives/rho1.h"
#include "wmtp/training/objectives/verifiable.h"

namespace wmtp::run {
using config::Stage;

StageModels::StageModels(const config::Config& config, const RunContext& context,
                         const ModelPlan& policy, const parallel::Groups& groups,
                         bool signals_cached)
    : config_(config) {
  if (config.experiment.stage == Stage::verifiable) {
    const config::Td& td = config.training.td;
    ema_ = std::make_unique<weighting::EmaTracker>(
        weighting::EmaState{0, 1, 0, td.ema_momentum, td.ema_warmup_steps}, context.device);
  }
  if (!policy.frozen || signals_cached) return;
  frozen_ = std::make_unique<training::FrozenModel>(policy.frozen->source, policy.frozen->options,
                                                    groups);
}

training::MakeObjective StageModels::objective() const {
  return [this](const training::ModelParts& parts) { return make(parts); };
}

std::unique_ptr<training::Objective> StageModels::make(const training::ModelParts& parts) const {
  switch (config_.experiment.stage) {
    case Stage::baseline:
      return std::make_unique<training::Baseline>(parts.policy,
                                                  loss_normalization(config_.training));
    case Stage::critic:
      return std::make_unique<training::Critic>(parts.policy, *parts.value, *parts.read_value,
                                                critic_options(config_));
    case Stage::verifiable:
      return std::make_unique<training::Verifiable>(
          parts.policy, training::ValueSources{parts.value, parts.read_value, frozen_.get()},
          verifiable_options(config_), *ema_, *parts.groups.reduce);
    case Stage::rho1:
      return std::make_unique<training::Rho1>(parts.policy, frozen_.get(),
                                              rho1_options(config_.training), *parts.groups.reduce);
  }
  WMTP_CHECK(false, "unknown stage");
}

}  // namespace wmtp::run
