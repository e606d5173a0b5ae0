// Which tokens begin, end and pad what an exported model generates.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/model/model_config.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::models {

inline constexpr const char* kGenerationConfigFile = "generation_config.json";

// Its text; empty where there is no `path`. Error data for a file beyond 1 MiB.
std::string read_generation_config(const std::filesystem::path& path);

// Each id from the first that knows it: the base's generation_config.json (empty: none), the
// tokenizer (null: none), the model's own configuration, which in a preset's case is the preset.
// Error data or config for a file that cannot be read. Warns where the model would not stop at the
// token that its training rows ended with.
void resolve_token_ids(model::ModelConfig& config, const std::filesystem::path& generation_config,
                       const tokenizer::Tokenizer* tokenizer);

}  // namespace wmtp::models
