#include "wmtp/config/old_keys.h"

#include <algorithm>
#include <iterator>

namespace wmtp::config {
namespace {

constexpr NamePair kAliases[] = {
    {"training.td_lambda", "training.td.lambda"},
    {"training.beta", "training.td.beta"},
    {"training.weight_clip_min", "training.td.clip_min"},
    {"training.weight_clip_max", "training.td.clip_max"},
    {"training.td_ema_momentum", "training.td.ema_momentum"},
    {"training.td_ema_warmup_steps", "training.td.ema_warmup_steps"},
    {"training.rho1_mode", "training.rho1.mode"},
    {"training.k_percent", "training.rho1.k_percent"},
    {"training.value_coef", "training.value.coef"},
    {"training.scheduler", "training.lr_scheduler"},
};

constexpr NamePair kForeignNames[] = {
    {"training.lr", "training.learning_rate"},
    {"training.num_epochs", "training.n_epochs"},
    {"training.num_train_epochs", "training.n_epochs"},
    {"training.steps", "training.max_steps"},
    {"training.per_device_train_batch_size", "training.batch_size"},
    {"training.grad_accum", "training.gradient_accumulation_steps"},
    {"training.grad_clip", "training.max_grad_norm"},
    {"training.weight_decay", "training.optimizer.weight_decay"},
    {"training.gradient_checkpointing", "distributed.fsdp.activation_checkpointing"},
    {"training.max_seq_length", "dataset.max_length"},
    {"training.seed", "runtime.seed"},
    {"training.output_dir", "runtime.run_dir"},
    {"dataset.path", "dataset.train"},
    {"dataset.max_seq_length", "dataset.max_length"},
    {"models.path", "models.policy.path"},
};

constexpr auto kRenamed = OldKey::Fate::renamed;
constexpr auto kTranslated = OldKey::Fate::translated;
constexpr auto kDropped = OldKey::Fate::dropped;

constexpr const char* kPathAdvice =
    "paths stand where they are used; ${env:DATA}/train.jsonl or ${runtime.run_dir} saves typing";
constexpr const char* kPathReason = "paths stand where they are used";

constexpr OldKey kOldKeys[] = {
    {"project", kTranslated, "",
     "use experiment.name, and mlflow.experiment for the tracking project",
     "a run is named by experiment.name, its tracking project by mlflow.experiment"},
    {"models.policy.params.n_future_tokens", kRenamed, "models.policy.n_future_tokens",
     "use models.policy.n_future_tokens", "the number of heads has a key of its own"},
    {"models.value_model.name", kDropped, "", "models.value_model.path is enough",
     "a label that nothing reads; models.value_model.path is enough"},
    {"models.reference.tokenizer_shared_with", kDropped, "",
     "the vocabularies are compared, and a difference is an error",
     "the vocabularies are compared, and a difference is an error"},
    {"models.reward", kDropped, "", "rewards come with the data (is_correct, reward)",
     "rewards come with the data (is_correct, reward)"},
    {"data", kTranslated, "", "use data_sampling in the file of each stage",
     "each stage has a file of its own with its data_sampling"},
    {"data_sampling.difficulty_range", kTranslated, "",
     "use data_sampling.difficulty_bins: {all: [a, b]} with difficulty_weights: {all: 1.0}",
     "a range is one bin with all the weight"},
    {"dataset.batch_size", kRenamed, "training.batch_size", "use training.batch_size",
     "sequences of a micro-batch, per rank"},
    {"training.temperature", kDropped, "",
     "tokens are selected by rank (training.rho1.k_percent), which no temperature changes",
     "tokens are selected by rank (training.rho1.k_percent), which no temperature changes"},
    {"training.weight_mode", kTranslated, "",
     "experiment.stage says it: baseline is uniform, verifiable weighs tokens, with "
     "training.td.control: random or shuffled for the controls",
     "the stage says how tokens are weighted"},
    {"training.trunk_frozen", kRenamed, "training.backbone_frozen", "use training.backbone_frozen",
     "a critic may have a backbone of its own"},
    {"training.fp16", kTranslated, "", "use distributed.fsdp.param_dtype: fp16",
     "precision belongs to the runtime"},
    {"training.bf16", kTranslated, "", "use distributed.fsdp.mixed_precision: true",
     "precision belongs to the runtime"},
    {"runtime.mixed_precision", kTranslated, "", "use distributed.fsdp.mixed_precision",
     "precision belongs to the sharded runtime"},
    {"runtime.ddp", kTranslated, "", "use distributed.fsdp.sharding_strategy: NO_SHARD",
     "replicas are the strategy that shards nothing"},
    {"runtime.fsdp", kRenamed, "distributed.fsdp", "use distributed.fsdp",
     "the section has another name"},
    {"storage.root", kDropped, "", kPathAdvice, kPathReason},
    {"storage.models_dir", kDropped, "", kPathAdvice, kPathReason},
    {"storage.datasets_dir", kDropped, "", kPathAdvice, kPathReason},
    {"storage.checkpoints_dir", kDropped, "", kPathAdvice, kPathReason},
    {"storage.local_small_dir", kDropped, "", kPathAdvice, kPathReason},
    {"mlflow.s3_artifacts", kTranslated, "", "use checkpoint.s3_upload and storage.s3",
     "checkpoints go to a bucket by themselves, not through MLflow"},
    {"mlflow.experiment_name", kRenamed, "mlflow.experiment", "use mlflow.experiment",
     "the key has a shorter name"},
};

}  // namespace

std::span<const NamePair> key_aliases() {
  return kAliases;
}

bool implies_gae(std::string_view path) {
  return path == "training.td_lambda" || path.starts_with("training.td_ema_");
}

std::span<const NamePair> foreign_names() {
  return kForeignNames;
}

std::span<const OldKey> old_keys() {
  return kOldKeys;
}

const OldKey* find_old_key(std::string_view path) {
  const auto found =
      std::ranges::find_if(kOldKeys, [path](const OldKey& old) { return old.path == path; });
  return found == std::end(kOldKeys) ? nullptr : &*found;
}

bool is_under(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '.');
}

}  // namespace wmtp::config
