// training.lora of a configuration, as the model takes it.
#pragma once
#include <optional>

#include "wmtp/config/config.h"
#include "wmtp/model/lora.h"

namespace wmtp::models {

// Nothing without use_lora. Error config for targets the model does not have.
std::optional<model::LoraConfig> lora_of(const config::Config& config,
                                         const model::ModelConfig& shape);

}  // namespace wmtp::models
