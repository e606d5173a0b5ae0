// A LoRA adapter on disk, as the PEFT package writes and reads it:
//   adapter_config.json
//   adapter_model.safetensors      adapters of blocks that the base model has
//   adapter_mtp_heads.safetensors  those of extra prediction heads; no other tool knows them
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "wmtp/checkpoint/weight_source.h"
#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/lora.h"

namespace wmtp::training {

struct OpenedAdapter {
  model::LoraConfig lora;                             // targets and scope are the tensors'
  std::string base_model;                             // as the file names it; may be empty
  std::unique_ptr<checkpoint::WeightSource> weights;  // *.lora_{A,B}.weight under wmtp's names
};

// Reads headers only. Error config for what wmtp does not have (checkpoint/peft_config.h), for
// adapters of other modules, and for tensors that are missing, unexpected or misshapen for
// `config`; Error data for damaged files.
OpenedAdapter open_adapter(const std::filesystem::path& folder, const model::ModelConfig& config);

struct AdapterToWrite {
  model::ModelConfig config;
  model::LoraConfig lora;
  std::string base_model;
  // The whole parameter, on the CPU; its dtype is the file's.
  std::function<Tensor(const layout::ParamSpec&)> read;
  bool is_public = false;  // readable by others
};

// Makes the folder where there is none; each file appears whole or not at all, the configuration
// last. Error config where heads are trained whole: no adapter holds them.
void write_adapter(const std::filesystem::path& folder, const AdapterToWrite& adapter);

}  // namespace wmtp::training
