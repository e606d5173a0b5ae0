// A model as a user names it, opened: what it is and where its weights are.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/model/lora.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/unquantized.h"
#include "wmtp/weights/model_folder.h"

namespace wmtp::models {

struct OpenedModel {
  model::ModelConfig config;
  std::optional<model::ValueHeadType> value_head;  // the folder's own, in weights as value_head.*
  std::optional<model::LoraConfig> lora;  // an adapter's, in weights as *.lora_{A,B}.weight
  std::string base_model;                 // of an adapter: its base, as it was named; else empty
  // The file of the adapters also replaces weights of the base (extra heads trained whole).
  bool changes_base = false;
  // Of a checkpoint upon a base in NF4, whose weights are those of the run.
  std::optional<Unquantized> unquantized;
  weights::ModelFolder folder;  // weights under wmtp's names, half-split rows
  // generation_config.json of the folder or, of an adapter or a checkpoint, of the base; empty:
  // none
  std::filesystem::path generation_config;
  // Where it was found (of a run its checkpoint or export), then its base.
  std::vector<std::filesystem::path> read_from;
  std::optional<std::int64_t> step;  // optimizer steps, of a checkpoint or an export that tells
  std::string fingerprint;  // of a checkpoint: its manifest's hash, which covers all; else empty

  bool has_weights() const { return folder.weights != nullptr; }
};

// A folder of transformers, of Meta, of the Python project, one of wmtp's exports, a checkpoint, a
// run or a pointer to a checkpoint (run_paths.h), one weights file beside its configuration,
// or "org/name" in the local Hugging Face cache; folders also as s3://bucket/..., where weights are
// safetensors. Reads headers only. With
// weights, every tensor and shape is held against the configuration (weights/weight_check.h).
// REQUIRES a configuration in the folder (Error config).
// A PEFT folder is its base with the adapter upon it, unmerged. The base is `base_model`, or what
// the adapter's configuration names: beside the folder, else as a model is named here. A training
// checkpoint of the Python project (a .pt; python_checkpoint.h) is the model it says, its adapters
// unmerged too; what it is and what it lacks comes from `base_model`, else from the configuration
// beside it, else from the base it names. A bare state dict in such a file takes a `base_model` as
// its description. Error config for a `base_model` of what takes none.
OpenedModel open_model(const std::string& name, const weights::Environment& environment,
                       const std::string& base_model = {});

}  // namespace wmtp::models
