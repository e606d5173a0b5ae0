#include "wmtp/config/derived.h"

#include <fmt/format.h>

#include <cctype>

#include "wmtp/core/error.h"

namespace wmtp::config {
namespace {

// A critic's backbone may be a model of its own.
bool trains_value_backbone(const Config& config) {
  return config.experiment.stage == Stage::critic && config.models.value_model.path;
}

}  // namespace

std::int64_t accumulation_steps(const Config& config, int world_size) {
  const Training& training = config.training;
  if (!training.global_batch_size) return training.gradient_accumulation_steps;
  const std::int64_t per_micro_batch = world_size * training.batch_size;
  if (*training.global_batch_size % per_micro_batch != 0)
    throw Error(
        ErrorKind::config, "config",
        fmt::format("training.global_batch_size {} does not divide by {} ranks * batch_size {}",
                    *training.global_batch_size, world_size, training.batch_size),
        fmt::format("use a multiple of {}", per_micro_batch));
  return *training.global_batch_size / per_micro_batch;
}

ComputeDTypes compute_dtypes(const Fsdp& fsdp) {
  ComputeDTypes dtypes;
  dtypes.param = fsdp.param_dtype.value_or(fsdp.mixed_precision ? DType::bf16 : DType::fp32);
  dtypes.reduce = fsdp.reduce_dtype.value_or(ReduceDType::fp32);
  return dtypes;
}

Quantize base_quantize(const Config& config) {
  return trains_value_backbone(config) ? config.models.value_model.quantize
                                       : config.models.policy.quantize;
}

std::optional<DType> base_dtype(const Config& config) {
  return trains_value_backbone(config) ? config.models.value_model.dtype
                                       : config.models.policy.dtype;
}

bool saves_trained_only(const Config& config) {
  return config.checkpoint.save_lora_only || base_quantize(config) != Quantize::none;
}

std::string policy_name(const Config& config) {
  const PolicyModel& policy = config.models.policy;
  if (policy.name) return *policy.name;
  std::string text = policy.path.text;
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  text = text.substr(text.rfind('/') + 1);
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return text;
}

double lora_learning_rate(const Config& config) {
  const Training& training = config.training;
  if (training.lora.learning_rate) return *training.lora.learning_rate;
  return config.experiment.stage == Stage::critic ? 1e-4 : training.learning_rate;
}

double lora_weight_decay(const Config& config) {
  const Training& training = config.training;
  return training.lora.weight_decay.value_or(training.optimizer.weight_decay);
}

std::vector<Derivation> derive_defaults(Config& config, bool gae_implied,
                                        const std::function<bool(std::string_view)>& is_written) {
  std::vector<Derivation> derived;
  Td& td = config.training.td;
  const auto set = [&](const char* key, auto& member, auto value, const char* reason) {
    if (is_written(key)) return;
    member = value;
    derived.push_back({key, reason});
  };
  if (gae_implied) set("training.td.mode", td.mode, TdMode::gae, "a flat td_* key is given");
  if (config.models.value_model.checkpoint_path)
    set("training.value.source", config.training.value.source, ValueSource::model,
        "models.value_model.checkpoint_path is given");
  const bool gae = td.mode == TdMode::gae;
  const char* mode = gae ? "td.mode = gae" : "td.mode = td0";
  set("training.td.beta", td.beta, gae ? 1.0 : 0.9, mode);
  set("training.td.clip_min", td.clip_min, 0.1, mode);
  set("training.td.clip_max", td.clip_max, gae ? 3.0 : 5.0, mode);
  set("training.td.whiten", td.whiten, gae ? Whiten::ema : Whiten::none, mode);
  const bool rho1 = config.experiment.stage == Stage::rho1;
  set("training.loss_normalization", config.training.loss_normalization,
      rho1 ? LossNormalization::weights : LossNormalization::tokens,
      rho1 ? "stage = rho1" : "stage is not rho1");
  return derived;
}

}  // namespace wmtp::config
