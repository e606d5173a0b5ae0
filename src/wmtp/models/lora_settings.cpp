#include "wmtp/models/lora_settings.h"

#include "wmtp/core/error.h"
#include "wmtp/core/same_name.h"

namespace wmtp::models {

std::optional<model::LoraConfig> lora_of(const config::Config& config,
                                         const model::ModelConfig& shape) {
  if (!config.training.use_lora) return std::nullopt;
  const config::Lora& lora = config.training.lora;
  model::LoraConfig wanted;
  wanted.rank = lora.rank;
  wanted.alpha = lora.alpha;
  wanted.dropout = lora.dropout;
  wanted.targets = lora.target_modules;
  wanted.scope = same_name<model::LoraScope>(lora.scope);
  wanted.train_heads = lora.train_heads;
  try {
    return model::checked(wanted, shape);
  } catch (const Error& error) {
    throw Error(error.kind(), "lora", "training.lora: " + error.fact(), error.hint());
  }
}

}  // namespace wmtp::models
