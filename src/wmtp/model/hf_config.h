// config.json of transformers, versions 4 and 5, read and written.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/core/json.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/weight_names.h"

namespace wmtp::model {

// What wmtp's own exports add to a config.json, in its block "wmtp".
struct ExportExtras {
  std::string mtp_file;                     // "" = none: extra heads in this file of the folder
  std::optional<ValueHeadType> value_head;  // in value_head.safetensors, or among the weights
  bool heads_inside = false;  // extra heads among the folder's other weights; only written
};

struct HfConfig {
  ModelConfig model;
  ExportExtras extras;
  bool stored_nf4 = false;  // quantization_config: weights in 4 bits, as bitsandbytes stores them
};

// Refuses (Error config) by key name what wmtp cannot compute: biases, other activations, sliding
// windows, other RoPE types, other quantisation than NF4 of bitsandbytes, unknown model types.
// Unknown keys are ignored.
HfConfig parse_hf_config(const Json& json, std::string_view origin);
HfConfig read_hf_config(const std::filesystem::path& path);

// The texts of config.json and generation_config.json that make an exported folder load in
// transformers 4 and 5 alike. A model with extra heads is described as the plain model its `layers`
// are; with extras.mtp_file or heads_inside the block "wmtp" says that and where there are more
// heads. `dtype` as transformers spells it (bfloat16).
std::string hf_config_text(const ModelConfig& config, std::string_view dtype,
                           const ExportExtras& extras = {});
// `base`: the text of the base model's file, kept as it is but for ids that are others now; empty:
// the ids alone. Error data for a `base` that is no JSON object.
std::string generation_config_text(const ModelConfig& config, std::string_view base = {});

// The ids in a generation_config.json; what it does not name stays empty.
struct GenerationIds {
  std::optional<std::int64_t> bos, pad;
  std::vector<std::int64_t> eos;
};
GenerationIds parse_generation_ids(std::string_view text, std::string_view origin);

}  // namespace wmtp::model
