#include "wmtp/config/rules/inert_keys.h"

#include <fmt/format.h>

#include "wmtp/config/derived.h"

namespace wmtp::config {
namespace {

bool of_stage(const Config& config, Stage stage) {
  return config.experiment.stage == stage;
}

bool draws_weights(const Config& config) {
  return of_stage(config, Stage::verifiable) && config.training.td.control == TdControl::random;
}

bool reads_value_model(const Config& config) {
  return of_stage(config, Stage::verifiable) &&
         config.training.value.source == ValueSource::model && !draws_weights(config);
}

bool trains_joint_head(const Config& config) {
  return of_stage(config, Stage::verifiable) &&
         config.training.value.source == ValueSource::joint && !draws_weights(config);
}

// critic on a backbone of its own, models.value_model.path.
bool has_own_backbone(const Config& config) {
  return of_stage(config, Stage::critic) && config.models.value_model.path.has_value();
}

bool trains_value_head(const Config& config) {
  return of_stage(config, Stage::critic) || of_stage(config, Stage::verifiable);
}

bool returns_lambda(const Config& config) {
  return config.training.value_loss.type == ValueLossType::lambda_return;
}

bool holds_lambda(const Config& config) {
  return config.training.value_loss.lambda_schedule.type == LambdaScheduleType::constant;
}

bool logs_to_mlflow(const Config& config) {
  return !config.mlflow.experiment.empty();
}

std::string mlflow_reason(const Config&) {
  return "mlflow.experiment is empty: MLflow is off";
}

std::string upload_reason(const Config&) {
  return "checkpoint.s3_upload is off";
}

std::string lambda_reason(const Config&) {
  return "training.value_loss.type is not lambda_return";
}

std::string constant_reason(const Config&) {
  return "lambda_schedule.type is constant";
}

std::string stage_reason(const Config& config) {
  return fmt::format("stage {} does not use it", name_of(config.experiment.stage));
}

// A reason that is the same for every configuration.
#define WMTP_BECAUSE(text) [](const Config&) { return std::string(text); }
#define WMTP_WHEN(condition) [](const Config& c) -> bool { return condition; }

constexpr bool kSwitched = true;

constexpr InertRule kRules[] = {
    // models
    {"models.policy.add_heads", WMTP_WHEN(!c.models.policy.n_future_tokens),
     WMTP_BECAUSE("models.policy.n_future_tokens adds no heads")},
    {"models.value_model.path", WMTP_WHEN(!of_stage(c, Stage::critic)), stage_reason},
    {"models.value_model.", WMTP_WHEN(!trains_value_head(c)), stage_reason},
    {"models.value_model.checkpoint_path", WMTP_WHEN(!of_stage(c, Stage::verifiable)),
     stage_reason},
    {"models.value_model.placement", WMTP_WHEN(of_stage(c, Stage::critic)), stage_reason},
    {"models.value_model.dtype",
     WMTP_WHEN(of_stage(c, Stage::critic) && (!has_own_backbone(c) || !c.training.backbone_frozen)),
     WMTP_BECAUSE("stage critic stores weights so only where backbone_frozen and "
                  "models.value_model.path are set")},
    {"models.policy.quantize", WMTP_WHEN(has_own_backbone(c)),
     WMTP_BECAUSE("the backbone is models.value_model.path")},
    {"models.value_model.quantize", WMTP_WHEN(of_stage(c, Stage::critic) && !has_own_backbone(c)),
     WMTP_BECAUSE("models.value_model.path is not set: see models.policy.quantize")},
    {"models.value_model.quantize", WMTP_WHEN(trains_joint_head(c)),
     WMTP_BECAUSE("value.source: joint reads no other model")},
    {"models.value_model.base_model_path",
     WMTP_WHEN(of_stage(c, Stage::critic) && !has_own_backbone(c)),
     WMTP_BECAUSE("models.value_model.path is not set")},
    {"models.value_model.dtype", WMTP_WHEN(trains_joint_head(c)),
     WMTP_BECAUSE("value.source: joint reads no other model")},
    {"models.value_model.placement", WMTP_WHEN(trains_joint_head(c)),
     WMTP_BECAUSE("value.source: joint reads no other model")},
    {"models.value_model.base_model_path", WMTP_WHEN(trains_joint_head(c)),
     WMTP_BECAUSE("value.source: joint reads no other model")},
    {"models.reference.", WMTP_WHEN(!of_stage(c, Stage::rho1)), stage_reason},
    // dataset and data_sampling
    {"dataset.text.",
     WMTP_WHEN(c.dataset.format != DataFormat::text && c.dataset.format != DataFormat::automatic),
     WMTP_BECAUSE("dataset.format is not text")},
    {"dataset.pack_multiple", WMTP_WHEN(!c.dataset.packing),
     WMTP_BECAUSE("dataset.packing is off")},
    {"dataset.pad_to", WMTP_WHEN(c.dataset.packing),
     WMTP_BECAUSE("packed rows have no padding (dataset.packing)")},
    {"dataset.max_bad_fraction", WMTP_WHEN(c.dataset.on_bad_line == OnBadLine::stop),
     WMTP_BECAUSE("dataset.on_bad_line is stop"), kSwitched},
    {"dataset.max_bad_lines", WMTP_WHEN(c.dataset.on_bad_line == OnBadLine::stop),
     WMTP_BECAUSE("dataset.on_bad_line is stop"), kSwitched},
    {"dataset.validation_metadata", WMTP_WHEN(!c.dataset.validation),
     WMTP_BECAUSE("dataset.validation is not set"), kSwitched},
    {"data_sampling.val_n_samples", WMTP_WHEN(!c.dataset.validation),
     WMTP_BECAUSE("dataset.validation is not set"), kSwitched},
    {"data_sampling.correct_ratio", WMTP_WHEN(!c.data_sampling.balance_correct),
     WMTP_BECAUSE("data_sampling.balance_correct is off"), kSwitched},
    {"data_sampling.max_pairs_per_problem", WMTP_WHEN(!c.data_sampling.use_pairwise),
     WMTP_BECAUSE("data_sampling.use_pairwise is off"), kSwitched},
    {"data_sampling.length_bins", WMTP_WHEN(!c.data_sampling.use_length_balanced),
     WMTP_BECAUSE("data_sampling.use_length_balanced is off"), kSwitched},
    {"data_sampling.curriculum_schedule", WMTP_WHEN(!c.data_sampling.curriculum_learning),
     WMTP_BECAUSE("data_sampling.curriculum_learning is off"), kSwitched},
    // training
    {"training.loss_normalization", WMTP_WHEN(of_stage(c, Stage::critic)), stage_reason},
    {"training.eval_every", WMTP_WHEN(!c.dataset.validation),
     WMTP_BECAUSE("dataset.validation is not set"), kSwitched},
    {"training.eval_every_steps", WMTP_WHEN(!c.dataset.validation),
     WMTP_BECAUSE("dataset.validation is not set"), kSwitched},
    {"training.eval_at_start", WMTP_WHEN(!c.dataset.validation),
     WMTP_BECAUSE("dataset.validation is not set"), kSwitched},
    {"training.lora.", WMTP_WHEN(!c.training.use_lora), WMTP_BECAUSE("training.use_lora is off"),
     kSwitched},
    {"training.lr_scheduler.patience",
     WMTP_WHEN(c.training.lr_scheduler.type != LrSchedule::plateau),
     WMTP_BECAUSE("training.lr_scheduler.type is not plateau"), kSwitched},
    {"training.lr_scheduler.factor", WMTP_WHEN(c.training.lr_scheduler.type != LrSchedule::plateau),
     WMTP_BECAUSE("training.lr_scheduler.type is not plateau"), kSwitched},
    {"training.lr_scheduler.warmup_ratio",
     WMTP_WHEN(c.training.lr_scheduler.warmup_steps.has_value()),
     WMTP_BECAUSE("training.lr_scheduler.warmup_steps wins"), kSwitched},
    {"training.lr_scheduler.min_lr_ratio",
     WMTP_WHEN(c.training.lr_scheduler.type == LrSchedule::constant),
     WMTP_BECAUSE("training.lr_scheduler.type is constant"), kSwitched},
    {"training.backbone_frozen", WMTP_WHEN(!of_stage(c, Stage::critic)), stage_reason},
    {"training.signal_cache", WMTP_WHEN(of_stage(c, Stage::baseline) || of_stage(c, Stage::critic)),
     stage_reason},
    // verifiable
    {"training.td.", WMTP_WHEN(!of_stage(c, Stage::verifiable)), stage_reason},
    {"training.control.", WMTP_WHEN(!of_stage(c, Stage::verifiable)), stage_reason},
    {"training.control.", WMTP_WHEN(!draws_weights(c)),
     WMTP_BECAUSE("training.td.control is not random"), kSwitched},
    {"training.td.lambda", WMTP_WHEN(c.training.td.mode != TdMode::gae),
     WMTP_BECAUSE("training.td.mode is td0, which looks one token ahead")},
    {"training.td.scope", WMTP_WHEN(c.training.td.whiten != Whiten::batch),
     WMTP_BECAUSE("training.td.whiten is not batch")},
    {"training.value.", WMTP_WHEN(!of_stage(c, Stage::verifiable)), stage_reason},
    {"training.value.coef", WMTP_WHEN(c.training.value.source == ValueSource::model),
     WMTP_BECAUSE("value.source: model trains no values")},
    {"training.value.stop_gradient", WMTP_WHEN(c.training.value.source == ValueSource::model),
     WMTP_BECAUSE("value.source: model trains no values")},
    // the value head and its loss
    {"training.value_head.", WMTP_WHEN(!trains_value_head(c)), stage_reason},
    {"training.value_loss.", WMTP_WHEN(!trains_value_head(c)), stage_reason},
    {"training.value_head.", WMTP_WHEN(draws_weights(c)),
     WMTP_BECAUSE("td.control: random reads no values"), kSwitched},
    {"training.value_loss.", WMTP_WHEN(draws_weights(c)),
     WMTP_BECAUSE("td.control: random reads no values"), kSwitched},
    {"training.value_head.", WMTP_WHEN(reads_value_model(c)),
     WMTP_BECAUSE("value.source: model brings the critic's own head")},
    {"training.value_loss.", WMTP_WHEN(reads_value_model(c)),
     WMTP_BECAUSE("value.source: model trains no values")},
    {"training.value_loss.coef", WMTP_WHEN(of_stage(c, Stage::verifiable)),
     WMTP_BECAUSE("in stage verifiable the factor is training.value.coef")},
    {"training.value_loss.bias_init",
     WMTP_WHEN(of_stage(c, Stage::verifiable) && c.training.value.init_from.has_value()),
     WMTP_BECAUSE("training.value.init_from brings the bias")},
    {"training.value_loss.reduction",
     WMTP_WHEN(c.training.value_loss.type == ValueLossType::pairwise_ranking),
     WMTP_BECAUSE("training.value_loss.type: pairwise_ranking counts pairs")},
    {"training.value_loss.loss_fn", WMTP_WHEN(!returns_lambda(c)), lambda_reason},
    {"training.value_loss.huber_delta", WMTP_WHEN(!returns_lambda(c)), lambda_reason},
    {"training.value_loss.huber_delta",
     WMTP_WHEN(c.training.value_loss.loss_fn != ValueLossFn::huber),
     WMTP_BECAUSE("training.value_loss.loss_fn is not huber")},
    {"training.value_loss.gamma", WMTP_WHEN(!returns_lambda(c)), lambda_reason},
    {"training.value_loss.lambda_schedule.", WMTP_WHEN(!returns_lambda(c)), lambda_reason},
    {"training.value_loss.lambda_schedule.value", WMTP_WHEN(!holds_lambda(c)),
     WMTP_BECAUSE("lambda_schedule.type is not constant")},
    {"training.value_loss.lambda_schedule.start", WMTP_WHEN(holds_lambda(c)), constant_reason},
    {"training.value_loss.lambda_schedule.end", WMTP_WHEN(holds_lambda(c)), constant_reason},
    {"training.value_loss.lambda_schedule.warmup_steps", WMTP_WHEN(holds_lambda(c)),
     constant_reason},
    {"training.value_loss.lambda_schedule.decay_steps", WMTP_WHEN(holds_lambda(c)),
     constant_reason},
    {"training.rho1.", WMTP_WHEN(!of_stage(c, Stage::rho1)), stage_reason},
    // distributed
    {"distributed.fsdp.shard_group_size",
     WMTP_WHEN(c.distributed.fsdp.sharding_strategy != ShardingStrategy::hybrid_shard),
     WMTP_BECAUSE("distributed.fsdp.sharding_strategy is not HYBRID_SHARD"), kSwitched},
    // what a run writes
    {"checkpoint.save_lora_only", WMTP_WHEN(base_quantize(c) != Quantize::none),
     WMTP_BECAUSE("checkpoints upon a base in NF4 hold what is trained only"), kSwitched},
    {"checkpoint.best_metric", WMTP_WHEN(!c.dataset.validation),
     WMTP_BECAUSE("dataset.validation is not set"), kSwitched},
    {"tracking.jsonl_path", WMTP_WHEN(!c.tracking.jsonl), WMTP_BECAUSE("tracking.jsonl is off"),
     kSwitched},
    {"tracking.tensorboard_dir", WMTP_WHEN(!c.tracking.tensorboard),
     WMTP_BECAUSE("tracking.tensorboard is off"), kSwitched},
    {"mlflow.tracking_uri", WMTP_WHEN(!logs_to_mlflow(c)), mlflow_reason, kSwitched},
    {"mlflow.run_name", WMTP_WHEN(!logs_to_mlflow(c)), mlflow_reason, kSwitched},
    {"mlflow.upload_artifacts", WMTP_WHEN(!logs_to_mlflow(c)), mlflow_reason, kSwitched},
    {"mlflow.spool_dir", WMTP_WHEN(!logs_to_mlflow(c)), mlflow_reason, kSwitched},
    {"storage.s3.prefix", WMTP_WHEN(c.storage.s3.bucket.empty()),
     WMTP_BECAUSE("storage.s3.bucket is empty"), kSwitched},
    {"storage.s3.keep", WMTP_WHEN(!c.checkpoint.s3_upload), upload_reason, kSwitched},
    {"checkpoint.upload_wait_s", WMTP_WHEN(!c.checkpoint.s3_upload), upload_reason, kSwitched},
};

#undef WMTP_WHEN
#undef WMTP_BECAUSE

}  // namespace

const InertRule* inert_rule(std::string_view key, const Config& config) {
  for (const InertRule& rule : kRules) {
    const bool named = rule.keys.ends_with('.') ? key.starts_with(rule.keys) : key == rule.keys;
    if (named && rule.holds(config)) return &rule;
  }
  return nullptr;
}

}  // namespace wmtp::config
