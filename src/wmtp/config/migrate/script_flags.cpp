#include "wmtp/config/migrate/script_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/config/migrate/rewrites.h"
#include "wmtp/config/migrate/script_values.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {
namespace {

// A flag takes a value for `key`, or switches `key` on and off, or says nothing here, or needs a
// function.
struct FlagRule {
  std::string_view names;  // "lr learning-rate"
  std::string_view key;
  const char *on = nullptr, *off = nullptr;  // of a switch; off null: then nothing is to be said
  std::string_view why = {};                 // without a key: why nothing is to be set
  Rewrite rewrite = nullptr;
};

constexpr const char* kPrecision = "norms, rotary angles and losses are fp32 by themselves";
constexpr const char* kRendezvous = "ranks find each other by themselves";
constexpr const char* kBuiltIn = "built in: one unit per block, each rank reads its own rows";
constexpr const char* kTracking =
    "metrics.jsonl is always there; mlflow.experiment and mlflow.tracking_uri send it to a server";

constexpr FlagRule kFlags[] = {
    // what is trained
    {"model model-name model-name-or-path model-id model-path pretrained-model base-model",
     "models.policy.path"},
    {"tokenizer tokenizer-name tokenizer-path", "models.policy.tokenizer_path"},
    {"run-name experiment-name exp-name wandb-run-name", "experiment.name"},
    {"use-lora lora", "training.use_lora", "true", "false"},
    {"lora-rank lora-r", "training.lora.rank"},
    {"lora-alpha", "training.lora.alpha"},
    {"lora-dropout", "training.lora.dropout"},
    {"lora-target-modules target-modules",
     "training.lora.target_modules",
     nullptr,
     nullptr,
     {},
     rewrite_word_list},
    // data
    {"data data-path train-file train-data train-path data-file", "dataset.train"},
    {"validation-file eval-file val-data val-file val-path", "dataset.validation"},
    {"dataset dataset-name dataset-config dataset-config-name dataset-split split",
     "dataset.train",
     nullptr,
     nullptr,
     {},
     rewrite_hub_data},
    {"seq-len seq-length sequence-length max-length max-len max-seq-len max-seq-length block-size "
     "context-length",
     "dataset.max_length"},
    {"num-workers dataloader-num-workers",
     "dataset.loader_threads",
     nullptr,
     nullptr,
     {},
     rewrite_workers},
    // steps
    {"batch-size per-device-batch-size per-device-train-batch-size micro-batch-size "
     "train-batch-size local-batch-size mbs",
     "training.batch_size"},
    {"global-batch-size", "training.global_batch_size"},
    {"gradient-accumulation gradient-accumulation-steps grad-accum grad-accum-steps "
     "accumulation-steps",
     "training.gradient_accumulation_steps"},
    {"steps max-steps num-steps train-steps total-steps max-train-steps", "training.max_steps"},
    {"epochs num-epochs num-train-epochs n-epochs", "training.n_epochs"},
    {"grad-clip max-grad-norm clip-grad-norm max-norm gradient-clipping clip-grad",
     "training.max_grad_norm"},
    {"seed", "runtime.seed", nullptr, nullptr, {}, rewrite_seed},
    {"log-every log-interval logging-steps log-freq print-every log-steps",
     "training.log_interval"},
    {"eval-every eval-steps eval-interval val-every eval-freq", "training.eval_every_steps"},
    // optimizer
    {"lr learning-rate", "training.learning_rate"},
    {"weight-decay wd", "training.optimizer.weight_decay"},
    {"beta1 adam-beta1", "training.optimizer.betas", nullptr, nullptr, {}, rewrite_beta1},
    {"beta2 adam-beta2", "training.optimizer.betas", nullptr, nullptr, {}, rewrite_beta2},
    {"betas adam-betas", "training.optimizer.betas"},
    {"eps adam-eps adam-epsilon", "training.optimizer.eps"},
    {"optimizer optim", "training.optimizer.type", nullptr, nullptr, {}, rewrite_optimizer},
    {"warmup warmup-steps num-warmup-steps", "training.lr_scheduler.warmup_steps"},
    {"warmup-ratio", "training.lr_scheduler.warmup_ratio"},
    {"lr-scheduler lr-scheduler-type scheduler lr-schedule",
     "training.lr_scheduler.type",
     nullptr,
     nullptr,
     {},
     rewrite_schedule},
    {"min-lr", "training.lr_scheduler.min_lr"},
    {"min-lr-ratio", "training.lr_scheduler.min_lr_ratio"},
    // sharding
    {"sharding-strategy",
     "distributed.fsdp.sharding_strategy",
     nullptr,
     nullptr,
     {},
     rewrite_strategy},
    {"fsdp use-fsdp fsdp2", "distributed.fsdp.sharding_strategy", "FULL_SHARD"},
    {"ddp use-ddp", "distributed.fsdp.sharding_strategy", "NO_SHARD"},
    {"hsdp use-hsdp", "distributed.fsdp.sharding_strategy", "HYBRID_SHARD"},
    {"reshard-after-forward", "distributed.fsdp.sharding_strategy", "FULL_SHARD", "SHARD_GRAD_OP"},
    {"shard-group-size dp-shard sharding-group-size", "distributed.fsdp.shard_group_size"},
    {"mixed-precision", "runtime.mixed_precision", nullptr, nullptr, {}, rewrite_precision},
    {"bf16", "distributed.fsdp.mixed_precision", "true", "false"},
    {"fp16", "distributed.fsdp.param_dtype", "fp16"},
    {"param-dtype dtype torch-dtype",
     "distributed.fsdp.param_dtype",
     nullptr,
     nullptr,
     {},
     rewrite_dtype},
    {"reduce-dtype", "distributed.fsdp.reduce_dtype", nullptr, nullptr, {}, rewrite_dtype},
    {"output-dtype cast-forward-inputs buffer-dtype", "", nullptr, nullptr, kPrecision},
    {"cpu-offload", "distributed.fsdp.cpu_offload", "true", "false"},
    {"activation-checkpointing gradient-checkpointing ac use-ac checkpoint-activations",
     "distributed.fsdp.activation_checkpointing",
     nullptr,
     nullptr,
     {},
     rewrite_recompute},
    {"explicit-prefetching explicit-prefetch",
     "distributed.fsdp.prefetch.forward",
     nullptr,
     nullptr,
     {},
     rewrite_explicit_prefetch},
    {"forward-prefetch", "distributed.fsdp.prefetch.forward", "1", "0"},
    {"backward-prefetch", "distributed.fsdp.prefetch.backward", "1", "0"},
    {"num-to-forward-prefetch", "distributed.fsdp.prefetch.forward"},
    {"num-to-backward-prefetch", "distributed.fsdp.prefetch.backward"},
    {"no-sync", "distributed.fsdp.no_sync", "true", "false"},
    {"limit-all-gathers use-orig-params sync-module-states auto-wrap-policy meta-device "
     "use-meta-device meta-init low-memory",
     "", nullptr, nullptr, kBuiltIn},
    {"compile torch-compile use-compile", "", nullptr, nullptr,
     "forward and backward are written out; there is nothing to compile"},
    {"attn-implementation use-flash-attn flash-attention flash-attn", "", nullptr, nullptr,
     "the attention kernel is chosen by device"},
    // the process group
    {"backend dist-backend", "distributed.backend"},
    {"device", "runtime.device"},
    {"local-rank rank world-size dist-url init-method", "", nullptr, nullptr, kRendezvous},
    // what a run writes
    {"save-every save-steps save-interval save-freq checkpoint-every checkpoint-interval "
     "checkpoint-freq ckpt-every ckpt-interval",
     "checkpoint.save_every_steps"},
    {"save-total-limit keep-last", "checkpoint.save_total_limit"},
    {"output-dir out-dir run-dir", "runtime.run_dir"},
    {"checkpoint-dir ckpt-dir save-dir checkpoint-folder", "checkpoint.save_dir"},
    {"dcp-api dcp use-dcp", "", nullptr, nullptr,
     "checkpoints are always sharded; `wmtp checkpoint export` writes whole weights"},
    {"async-save async-checkpoint", "checkpoint.async", "true", "false"},
    {"resume auto-resume resume-from resume-from-checkpoint load-checkpoint",
     "checkpoint.resume",
     nullptr,
     nullptr,
     {},
     rewrite_resume},
    {"tensorboard use-tensorboard", "tracking.tensorboard", "true", "false"},
    {"wandb use-wandb wandb-project wandb-entity report-to project", "", nullptr, nullptr,
     kTracking},
};

const FlagRule* find_rule(std::string_view name) {
  const auto found = std::ranges::find_if(
      kFlags, [&](const FlagRule& rule) { return has_name(rule.names, name); });
  return found == std::end(kFlags) ? nullptr : &*found;
}

void take_switch(Rewriter& rewriter, const OldEntry& entry, const FlagRule& rule, bool inverted) {
  Node value = entry.value.is(Node::Kind::null) ? plain_scalar("true", entry.place) : entry.value;
  respell(*schema().find("training.use_lora"), value);
  if (!value.is(Node::Kind::boolean)) {
    // A switch of some scripts is a number of others: --forward-prefetch 2.
    if (!inverted && rule.key.ends_with("ward")) return take_prefetch(rewriter, entry);
    return rewriter.refuse(entry, fmt::format("{} is a switch here ({})", rule.key,
                                              schema().find(rule.key)->type.name));
  }
  const char* now = value.boolean != inverted ? rule.on : rule.off;
  if (!now) return rewriter.drop(entry, fmt::format("{} says it where it is on", rule.key));
  rewriter.put(entry, rule.key, plain_scalar(now, entry.place), schema().find(rule.key)->help);
}

void take_by(Rewriter& rewriter, OldEntry entry, const FlagRule& rule) {
  entry.key = rule.key;
  const Row* row = schema().find(rule.key);
  const bool bare = entry.value.is(Node::Kind::null);
  if (rule.rewrite) return rule.rewrite(rewriter, entry);
  if (rule.key.empty()) return rewriter.drop(entry, std::string(rule.why));
  if (rule.on) return take_switch(rewriter, entry, rule, false);
  if (bare) return rewriter.refuse(entry, fmt::format("{} needs a value", rule.key));
  if (const Rewrite rewrite = value_rewrite_of(rule.key)) return rewrite(rewriter, entry);
  rewriter.put(entry, rule.key, entry.value, row->help);
}

}  // namespace

void take_script_flag(Rewriter& rewriter, const ScriptFlag& flag, Place place) {
  const OldEntry entry{flag.written, "", place, node_of_words(flag.values, place)};
  if (const FlagRule* rule = find_rule(flag.name)) return take_by(rewriter, entry, *rule);
  const FlagRule* positive =
      flag.name.starts_with("no-") ? find_rule(flag.name.substr(3)) : nullptr;
  if (positive && positive->on) return take_switch(rewriter, entry, *positive, true);
  if (positive && positive->key.empty() && !positive->rewrite)
    return rewriter.drop(entry, std::string(positive->why));
  if (flag.name == "config")
    return rewriter.refuse(entry, "give that file itself: wmtp migrate FILE");
  rewriter.refuse(entry, "no key of ours is known for it");
}

}  // namespace wmtp::config
