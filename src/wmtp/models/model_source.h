// A model by name, ready to be filled in anywhere: what it is, and a function that reads (or draws)
// any range of any of its parameters.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/model/lora.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/unquantized.h"
#include "wmtp/parallel/unit_state.h"
#include "wmtp/weights/model_folder.h"

namespace wmtp::models {

struct ModelSource {
  model::ModelConfig config;
  // OWNS the open files. Reads only the elements asked for, converted to the dtype of `out`, which
  // may lie on any device. Also serves as model::LocalWeights::ReadParam. THREADS: any.
  parallel::ReadParam fill;
  // Parameters that are in NF4 there and have nothing built into them: of folders that
  // bitsandbytes wrote, and of checkpoints upon a base in NF4. Empty: there are none. THREADS: any.
  parallel::ReadNf4 stored_nf4;
  std::filesystem::path tokenizer_folder;   // empty: a preset has none
  std::filesystem::path generation_config;  // as in OpenedModel
  // What the model has besides its own parameters; `fill` knows those tensors too.
  std::optional<model::LoraConfig> lora;
  std::optional<model::ValueHeadType> value_head;
  std::optional<Unquantized> unquantized;        // as in OpenedModel
  std::vector<std::filesystem::path> read_from;  // itself, then its base; a preset has none
  std::optional<std::int64_t> step;  // optimizer steps, of a checkpoint or an export that tells
  std::string base_model;            // of an adapter: its base, as it was named; else empty
  bool changes_base = false;         // as in OpenedModel: no PEFT folder can hold it
  DType stored_dtype = kFloat32;     // of the embedding
  // bf16 or fp16 where all parameters of the model are stored so, else fp32.
  DType exact_dtype = kFloat32;
  // What it is by content (base_fingerprint.h); adapters count, merged or not. BLOCKS: reads some
  // of every tensor.
  std::function<std::string()> fingerprint;

  // lora_units where there are adapters, else model_units.
  std::vector<layout::UnitSpec> units() const;
};

// A preset's name (weights drawn from `seed`; a folder of that name is reached as ./NAME), or what
// open_model takes. Reads headers only; strict, so a source that is returned is complete. Error
// config for a folder without weights. `base_model` as in open_model.
ModelSource open_model_source(const std::string& name, const weights::Environment& environment,
                              std::uint64_t seed = 0, const std::string& base_model = {});

// Weights from scratch, the same for every world size. REQUIRES host memory.
parallel::ReadParam random_weights(const model::ModelConfig& config, std::uint64_t seed);

// Puts the adapter of a PEFT folder upon the model, unmerged. Error config where the model has one
// already, and for what open_adapter refuses.
void apply_adapter(ModelSource& source, const std::filesystem::path& folder);

}  // namespace wmtp::models
