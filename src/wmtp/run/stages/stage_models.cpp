#include "wmtp/run/stages/stage_models.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/training/objectives/critic.h"
#include "wmtp/training/objectives/rho1.h"
#include "wmtp/training/objectives/verifiable.h"

namespace wmtp::run {
namespace {

using config::Stage;

// The configuration's words are those of weighting/ and losses/, in the same order.
static_assert(static_cast<int>(weighting::TdMode::gae) == static_cast<int>(config::TdMode::gae));
static_assert(static_cast<int>(weighting::Terminal::monte_carlo) ==
              static_cast<int>(config::TdTerminal::monte_carlo));
static_assert(static_cast<int>(weighting::Rho1Mode::difficult) ==
              static_cast<int>(config::Rho1Mode::difficult));
static_assert(static_cast<int>(losses::Normalization::weights_joint) ==
              static_cast<int>(config::LossNormalization::weights_joint));
static_assert(static_cast<int>(losses::ValueLossType::pairwise_ranking) ==
              static_cast<int>(config::ValueLossType::pairwise_ranking));
static_assert(static_cast<int>(losses::ValueLossFn::mse) ==
              static_cast<int>(config::ValueLossFn::mse));
static_assert(static_cast<int>(losses::ValueReduction::token) ==
              static_cast<int>(config::ValueReduction::token));
static_assert(static_cast<int>(losses::LambdaScheduleType::cosine) ==
              static_cast<int>(config::LambdaScheduleType::cosine));
static_assert(static_cast<int>(training::Whiten::ema) == static_cast<int>(config::Whiten::ema));
static_assert(static_cast<int>(training::WeightControl::shuffled) ==
              static_cast<int>(config::TdControl::shuffled));

losses::ValueLossOptions value_loss_of(const config::ValueLoss& loss) {
  losses::ValueLossOptions options;
  options.type = static_cast<losses::ValueLossType>(loss.type);
  options.loss_fn = static_cast<losses::ValueLossFn>(loss.loss_fn);
  options.huber_delta = loss.huber_delta;
  options.gamma = loss.gamma;
  options.reduction = static_cast<losses::ValueReduction>(loss.reduction);
  return options;
}

losses::LambdaSchedule lambda_of(const config::LambdaSchedule& schedule) {
  return {static_cast<losses::LambdaScheduleType>(schedule.type),
          schedule.value,
          schedule.start,
          schedule.end,
          schedule.warmup_steps,
          schedule.decay_steps};
}

training::VerifiableOptions verifiable_options(const config::Config& config) {
  const config::Training& training = config.training;
  const config::Td& td = training.td;
  training::VerifiableOptions options;
  options.normalization = static_cast<losses::Normalization>(training.loss_normalization);
  options.td = {static_cast<weighting::TdMode>(td.mode), td.gamma, td.lambda, td.v_init,
                static_cast<weighting::Terminal>(td.terminal)};
  options.weights = {td.beta, td.clip_min, td.clip_max};
  options.whiten = static_cast<training::Whiten>(td.whiten);
  options.scope_ranks = td.scope == config::Scope::ranks;
  options.control = static_cast<training::WeightControl>(td.control);
  if (options.control == training::WeightControl::random) {
    const weighting::Moments target{training.control.mean, training.control.std};
    options.random_law = training.control.match == config::ControlMatch::clipped
                             ? weighting::match_clipped(target, td.clip_min, td.clip_max)
                             : weighting::match_unclipped(target);
  }
  options.seed = static_cast<std::uint64_t>(config.runtime.seed);
  options.value_coef = training.value.coef;
  options.stop_gradient = training.value.stop_gradient;
  options.value_loss = value_loss_of(training.value_loss);
  options.lambda_schedule = lambda_of(training.value_loss.lambda_schedule);
  return options;
}

training::Rho1Options rho1_options(const config::Training& training) {
  training::Rho1Options options;
  options.normalization = static_cast<losses::Normalization>(training.loss_normalization);
  options.mode = static_cast<weighting::Rho1Mode>(training.rho1.mode);
  options.k_percent = training.rho1.k_percent;
  options.scope_ranks = training.rho1.scope == config::Scope::ranks;
  options.first_head_always = training.rho1.first_head == config::Rho1FirstHead::always;
  return options;
}

training::CriticOptions critic_options(const config::Config& config) {
  const config::Training& training = config.training;
  training::CriticOptions options;
  options.loss = value_loss_of(training.value_loss);
  options.lambda_schedule = lambda_of(training.value_loss.lambda_schedule);
  options.coef = training.value_loss.coef;
  options.pairs = config.data_sampling.use_pairwise;
  options.backbone_learns = !training.backbone_frozen || training.use_lora;
  return options;
}

}  // namespace

StageModels::StageModels(const config::Config& config, const RunSite& site,
                         const PolicyPlan& policy, const parallel::Groups& groups,
                         bool signals_cached)
    : config_(config) {
  if (config.experiment.stage == Stage::verifiable) {
    const config::Td& td = config.training.td;
    ema_ = std::make_unique<weighting::EmaTracker>(
        weighting::EmaState{0, 1, 0, td.ema_momentum, td.ema_warmup_steps}, site.device);
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
      return std::make_unique<training::Baseline>(
          parts.policy, static_cast<losses::Normalization>(config_.training.loss_normalization));
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
