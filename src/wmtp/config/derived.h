// Values that follow from several keys.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/config/config.h"

namespace wmtp::config {

// Micro-batches of a step: global_batch_size / (world_size * batch_size) where that is set (an
// Error of kind config if it does not divide), else gradient_accumulation_steps.
std::int64_t accumulation_steps(const Config& config, int world_size);

struct ComputeDTypes {
  DType param = DType::bf16;
  ReduceDType reduce = ReduceDType::fp32;
};
ComputeDTypes compute_dtypes(const Fsdp& fsdp);  // mixed_precision, refined by the two dtype keys

// Of the base a run trains upon: models.value_model.quantize where a critic has a backbone of its
// own, else models.policy.quantize.
Quantize base_quantize(const Config& config);
// What its frozen weights are stored in; nothing: what they are computed with.
std::optional<DType> base_dtype(const Config& config);
// save_lora_only, or a base in NF4, which is quantised again from its folder.
bool saves_trained_only(const Config& config);

std::string policy_name(const Config& config);  // models.policy.name, or made from the path
double lora_learning_rate(const Config& config);
double lora_weight_decay(const Config& config);

struct Derivation {
  std::string key, reason;  // "training.td.beta", "td.mode = gae"
};
// Fills the defaults that depend on stage and mode, for keys that were not written.
std::vector<Derivation> derive_defaults(Config& config, bool gae_implied,
                                        const std::function<bool(std::string_view)>& is_written);

}  // namespace wmtp::config
