#include <fmt/format.h>

#include <cmath>

#include "wmtp/config/rules/rules.h"

namespace wmtp::config {
namespace {

void check_critic(const RuleContext& context) {
  const Training& training = context.config.training;
  if (training.value_loss.type == ValueLossType::pairwise_ranking &&
      !context.config.data_sampling.use_pairwise)
    context.fail({"training.value_loss.type", "data_sampling.use_pairwise"},
                 "pairwise_ranking needs data_sampling.use_pairwise");
  if (!training.backbone_frozen && training.use_lora)
    context.fail({"training.backbone_frozen", "training.use_lora"},
                 "a trained backbone and use_lora exclude each other");
}

void check_value_source(const RuleContext& context) {
  const Training& training = context.config.training;
  const bool has_checkpoint = context.config.models.value_model.checkpoint_path.has_value();
  constexpr const char* kSource = "training.value.source";
  constexpr const char* kCheckpoint = "models.value_model.checkpoint_path";
  if (training.value.source == ValueSource::model) {
    if (!has_checkpoint && training.td.control != TdControl::random)
      context.fail({kSource, kCheckpoint}, "model needs models.value_model.checkpoint_path");
    if (training.value.init_from)
      context.fail({"training.value.init_from", kSource}, "does not go with value.source: model");
    return;
  }
  if (has_checkpoint) context.fail({kCheckpoint, kSource}, "does not go with value.source: joint");
  if (training.value_loss.type == ValueLossType::pairwise_ranking)
    context.fail({"training.value_loss.type", kSource},
                 "pairwise_ranking does not go with value.source: joint");
  if (training.loss_normalization != LossNormalization::tokens)
    context.fail({"training.loss_normalization", kSource},
                 fmt::format("{} does not go with value.source: joint",
                             name_of(training.loss_normalization)));
}

// Moments after clipping to [lo, hi] exist iff lo < mean < hi and 0 < std <
// sqrt((mean-lo)(hi-mean)).
void check_control(const RuleContext& context) {
  const Td& td = context.config.training.td;
  const Control& control = context.config.training.control;
  if (td.control != TdControl::random || control.match != ControlMatch::clipped) return;
  if (!(td.clip_min < control.mean && control.mean < td.clip_max)) {
    context.fail({"training.control.mean", "training.td.clip_min", "training.td.clip_max"},
                 fmt::format("mean {} is not between the clip bounds {} and {}", control.mean,
                             td.clip_min, td.clip_max));
    return;
  }
  const double bound = std::sqrt((control.mean - td.clip_min) * (td.clip_max - control.mean));
  if (!(control.std < bound))
    context.fail({"training.control.std", "training.td.clip_min", "training.td.clip_max"},
                 fmt::format("std {} is not below {:.6g}, the bound for mean {} within {} and {}",
                             control.std, bound, control.mean, td.clip_min, td.clip_max));
}

void check_verifiable(const RuleContext& context) {
  const Td& td = context.config.training.td;
  check_value_source(context);
  if (!(td.clip_min < td.clip_max))
    context.fail({"training.td.clip_min", "training.td.clip_max"},
                 fmt::format("clip_min {} is not below clip_max {}", td.clip_min, td.clip_max));
  if (td.terminal == TdTerminal::monte_carlo && (td.gamma != 1 || td.lambda != 1))
    context.fail({"training.td.terminal", "training.td.gamma", "training.td.lambda"},
                 "monte_carlo needs gamma = lambda = 1");
  check_control(context);
}

void check_rho1(const RuleContext& context) {
  const ReferenceModel& reference = context.config.models.reference;
  if (reference.path.has_value() == reference.checkpoint_path.has_value())
    context.fail({"models.reference.path", "models.reference.checkpoint_path"},
                 "stage rho1 needs exactly one of models.reference.path and checkpoint_path");
}

}  // namespace

void check_objective_rules(const RuleContext& context) {
  switch (context.config.experiment.stage) {
    case Stage::baseline:
      break;
    case Stage::critic:
      check_critic(context);
      break;
    case Stage::verifiable:
      check_verifiable(context);
      break;
    case Stage::rho1:
      check_rho1(context);
      break;
  }
}

}  // namespace wmtp::config
