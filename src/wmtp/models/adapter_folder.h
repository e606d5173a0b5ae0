// A LoRA adapter on disk, as the PEFT package writes and reads it:
//   adapter_config.json
//   adapter_model.safetensors      adapters of blocks that the base model has
//   adapter_mtp_heads.safetensors  those of extra prediction heads; no other tool knows them
//   value_head.safetensors         a trained value head; no other tool knows it
// Exports write it (exports/exporter.h).
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/lora.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/weights/weight_source.h"

namespace wmtp::models {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";
inline constexpr const char* kAdapterHeadsFile = "adapter_mtp_heads.safetensors";
inline constexpr const char* kValueHeadFile = "value_head.safetensors";
inline constexpr const char* kValueHeadKey = "value_head";  // metadata of that file: its type

struct OpenedAdapter {
  model::LoraConfig lora;  // by its configuration; the scope is the tensors'
  std::optional<model::ValueHeadType> value_head;
  std::string base_model;                          // as the file names it; may be empty
  std::unique_ptr<weights::WeightSource> weights;  // *.lora_{A,B}.weight and value_head.*
};

// A folder with an adapter's configuration and no model's.
bool is_adapter_folder(const std::filesystem::path& path);

// Reads headers only. Error config for what wmtp does not have (weights/peft_config.h), for
// adapters of other modules, for tensors that the configuration does not adapt, and for tensors
// that are missing, unexpected or misshapen for `config`; Error data for damaged files. Adapters of
// extra heads that the model lacks are left out with a warning.
OpenedAdapter open_adapter(const std::filesystem::path& folder, const model::ModelConfig& config);

// The tensors of such a folder as stored, held against no model.
std::unique_ptr<weights::WeightSource> open_adapter_tensors(const std::filesystem::path& folder);

// lora_A and lora_B of every adapted projection, in the order of lora_units.
std::vector<layout::ParamSpec> adapter_params(const model::ModelConfig& config,
                                              const model::LoraConfig& lora);
bool is_adapter_param(std::string_view name);
// "model.layers.3.self_attn.q_proj" of its two adapter tensors; empty for other names.
std::string_view adapted_module(std::string_view name);

}  // namespace wmtp::models
