#include "wmtp/cli/init/proposal.h"

#include <fmt/format.h>

#include <algorithm>

namespace wmtp::cli {
namespace {

using config::CommentedKey;
using config::Stage;

constexpr std::int64_t kMostSequences = 8, kMostTokens = 16384, kStepSamples = 16, kFewSteps = 10;

void add_model_keys(const InitInputs& inputs, std::vector<CommentedKey>& keys) {
  const InitModel& model = inputs.model;
  keys.push_back({"models.policy.path", model.path, ""});
  if (!model.tokenizer_path.empty())
    keys.push_back({"models.policy.tokenizer_path", model.tokenizer_path, model.tokenizer_fact});
  keys.push_back({"models.policy.init", model.drawn ? "random" : "pretrained", model.init_fact});
  if (!inputs.critic.empty())
    keys.push_back({"models.value_model.checkpoint_path", inputs.critic, ""});
  if (!inputs.reference.empty()) keys.push_back({"models.reference.path", inputs.reference, ""});
}

double learning_rate(const InitInputs& inputs) {
  if (inputs.model.drawn) return 1e-3;
  return inputs.survey.format == data::Format::instruct ? 1e-5 : 3e-5;
}

void add_training_keys(const InitInputs& inputs, const BatchChoice& batch,
                       std::vector<CommentedKey>& keys) {
  keys.push_back({"training.n_epochs", 1.0, batch.steps_fact});
  keys.push_back({"training.batch_size", batch.batch_size, batch.batch_fact});
  keys.push_back(
      {"training.gradient_accumulation_steps", batch.accumulation,
       fmt::format("a step has {} samples of each rank.", batch.batch_size * batch.accumulation)});
  keys.push_back({"training.learning_rate", learning_rate(inputs),
                  inputs.model.drawn ? "weights drawn at random bear more than trained ones."
                                     : "trained weights are changed with care."});
  keys.push_back({"training.log_interval", 10, ""});
  keys.push_back({"training.use_lora", false, ""});
  keys.push_back({"training.lr_scheduler.type", "cosine", ""});
  keys.push_back({"training.lr_scheduler.warmup_ratio", 0.03, ""});
  keys.push_back({"training.lr_scheduler.min_lr_ratio", 0.1, ""});
}

void add_critic_keys(const InitInputs& inputs, std::vector<CommentedKey>& keys) {
  const bool drawn = inputs.model.drawn;
  keys.push_back({"training.backbone_frozen", !drawn,
                  drawn ? "a trunk drawn at random has nothing to build on." : ""});
  keys.push_back({"training.value_head.learning_rate", drawn ? 3e-3 : 5e-4, ""});
  keys.push_back({"training.value_loss.type", "mse", ""});
  keys.push_back({"training.value_loss.bias_init", 0.5, "as many correct as incorrect rows."});
}

void add_verifiable_keys(const InitInputs& inputs, std::vector<CommentedKey>& keys) {
  const bool joint = inputs.critic.empty();
  keys.push_back({"training.value.source", joint ? "joint" : "model",
                  joint ? "no critic was named (--critic)." : "from the critic that was named."});
  if (joint) keys.push_back({"training.value.coef", 0.5, ""});
  keys.push_back({"training.td.mode", joint ? "td0" : "gae", ""});
}

void add_stage_keys(const InitInputs& inputs, std::vector<CommentedKey>& keys) {
  switch (inputs.stage) {
    case Stage::baseline:
      break;
    case Stage::critic:
      add_critic_keys(inputs, keys);
      break;
    case Stage::verifiable:
      add_verifiable_keys(inputs, keys);
      break;
    case Stage::rho1:
      keys.push_back({"training.rho1.mode", "signed", ""});
      keys.push_back({"training.rho1.k_percent", 0.6, ""});
      break;
  }
}

void add_run_keys(const InitInputs& inputs, std::vector<CommentedKey>& keys) {
  const bool small_state = inputs.stage == Stage::critic && !inputs.model.drawn;
  keys.push_back({"checkpoint.save_checkpoint_every", 1.0, ""});
  keys.push_back({"checkpoint.save_total_limit", 3, ""});
  keys.push_back({"distributed.fsdp.sharding_strategy", small_state ? "NO_SHARD" : "FULL_SHARD",
                  small_state ? "only the value head is trained: little to share out." : ""});
  keys.push_back({"distributed.fsdp.activation_checkpointing", "auto", ""});
  keys.push_back({"runtime.device", "auto", ""});
  keys.push_back({"runtime.seed", 42, ""});
}

}  // namespace

std::optional<std::int64_t> about_samples(const InitInputs& inputs, std::int64_t max_length) {
  const data::Survey& survey = inputs.survey;
  if (!survey.about_size) return std::nullopt;
  const auto size = static_cast<double>(*survey.about_size);
  if (survey.format == data::Format::text)
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(size) / max_length);
  if (survey.num_rows == 0) return std::nullopt;
  // What was looked at stands for all of it.
  const double scale = size / static_cast<double>(survey.num_rows + survey.num_bad);
  auto drawn = static_cast<double>(survey.num_rows);
  const auto ratio = drawn_ratio(inputs);
  if (uses_pairs(inputs))
    drawn = static_cast<double>(survey.num_pairs);
  else if (ratio == 1.0)
    drawn = static_cast<double>(survey.num_correct);
  else if (ratio)
    drawn = 2 * static_cast<double>(std::min(survey.num_correct, survey.num_incorrect()));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::max(1.0, scale) * drawn));
}

BatchChoice proposed_batch(const InitInputs& inputs, std::int64_t max_length) {
  BatchChoice choice{kMostSequences, 1, {}, {}};
  const std::int64_t sequences = uses_pairs(inputs) ? 2 : 1;
  while (choice.batch_size > 1 && choice.batch_size * sequences * max_length > kMostTokens)
    choice.batch_size /= 2;
  choice.accumulation = kStepSamples / choice.batch_size;
  if (const auto samples = about_samples(inputs, max_length)) {
    const std::int64_t most = std::max<std::int64_t>(1, *samples / kFewSteps);
    while (choice.batch_size * choice.accumulation > most && choice.accumulation > 1)
      choice.accumulation /= 2;
    while (choice.batch_size > most) choice.batch_size /= 2;
  }
  return choice;
}

std::vector<CommentedKey> proposed_keys(const InitInputs& inputs, const BatchChoice& batch) {
  std::vector<CommentedKey> keys = proposed_data_keys(inputs);
  keys.push_back({"experiment.name", inputs.name, ""});
  keys.push_back({"experiment.stage", config::name_of(inputs.stage), ""});
  add_model_keys(inputs, keys);
  add_training_keys(inputs, batch, keys);
  add_stage_keys(inputs, keys);
  add_run_keys(inputs, keys);
  return keys;
}

}  // namespace wmtp::cli
