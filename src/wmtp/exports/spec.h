// What an export is to be: a folder that other tools load as it is.
//   hf    transformers, vLLM, llama.cpp: whole weights, adapters merged into them
//   peft  PEFT: the adapters alone
//   pt    one checkpoint.pt for torch.load(weights_only=True): whole weights, all heads
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/model/lora.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/unquantized.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::exports {

enum class ExportFormat { hf, peft, pt };
std::string_view name_of(ExportFormat format);
ExportFormat export_format(std::string_view name);  // Error config for other names

// What README.md tells; empty parts are left out. The licence is the user's to add.
struct ModelCard {
  std::string source;  // what it was made from: a checkpoint, a run's folder, a model
  std::string base_model, data, stage;
  std::string description, reference;  // free text, as the run's configuration has it
  std::vector<std::string> tags;
  std::int64_t steps = 0;  // 0: not known
  std::vector<std::pair<std::string, double>> metrics;
  std::string configuration;  // the run's YAML
};

struct ExportSpec {
  std::filesystem::path out;
  ExportFormat format = ExportFormat::hf;
  model::ModelConfig config;
  std::optional<model::LoraConfig> lora;  // the tensors hold adapters: merged by hf and pt
  std::optional<model::ValueHeadType> value_head;
  DType dtype = kFloat32;  // of all weights but the value head, which is fp32
  std::uint64_t max_shard_bytes = 5'000'000'000;  // a larger tensor has a file of its own
  bool keep_mtp = false;                          // hf: extra heads too, in mtp_heads.safetensors
  bool verify = true;                      // read back and compare before the folder gets its name
  std::filesystem::path tokenizer_folder;  // its tokenizer's files are copied; empty: none
  // The base's, copied with the ids of `config` (token_ids.h); empty: one is written of them alone.
  std::filesystem::path generation_config;
  std::string base_model;             // as it was named; peft: base_model_name_or_path of a preset
  std::filesystem::path base_folder;  // peft: where the base lies (base_name.h); empty: a preset
  // Of a base in NF4: what the written weights are compared with. Without it such a base has no
  // other form (`nf4_base`).
  std::optional<models::Unquantized> unquantized;
  bool nf4_base = false;
  std::string model_name;  // the <model> of the run's checkpoints; empty: not known
  std::int64_t total_steps = 0, start_batch_index = 0;  // pt
  ModelCard card;
};

// The configuration's own word, else `otherwise`.
DType default_export_dtype(const model::ModelConfig& config, DType otherwise);

// Whether an export may have written a file of this name: what a newer export may replace, in a
// folder with the mark (mark.h).
bool is_export_file(std::string_view name);

}  // namespace wmtp::exports
