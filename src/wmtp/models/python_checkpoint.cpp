#include "wmtp/models/python_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/models/adapter_folder.h"
#include "wmtp/models/adapters/adapted_modules.h"
#include "wmtp/weights/weight_check.h"

namespace wmtp::models {
namespace {

using weights::StoredTensor;
using weights::TorchCheckpoint;
using weights::WeightSource;

constexpr std::string_view kUnembedding = "lm_head.weight";

// Meta's names in MTP models; in value and reference models transformers' names, those of a
// LlamaModel without the "model." of the whole.
layout::NameMap python_names(const model::ModelConfig& config) {
  return [meta = model::meta_name_map(config)](
             std::string_view stored) -> std::optional<layout::MappedName> {
    if (auto mapped = meta(stored)) return mapped;
    if (!stored.starts_with("layers.") && !stored.starts_with("embed_tokens.")) return std::nullopt;
    return layout::MappedName{fmt::format("model.{}", stored)};
  };
}

std::string adapter_name(std::string_view weight, std::string_view part) {
  weight.remove_suffix(std::string_view(".weight").size());
  return fmt::format("{}.lora_{}.weight", weight, part);
}

// A linear head and one with a sigmoid have the same tensors: the file says which it is, else the
// configuration of the model.
std::optional<model::ValueHeadType> stored_value_head(
    const WeightSource& weights, const std::string& said,
    std::optional<model::ValueHeadType> configured) {
  if (weights.find("value_head.mlp.0.weight")) return model::ValueHeadType::mlp;
  const StoredTensor* linear = weights.find("value_head.linear.weight");
  if (!linear) return std::nullopt;
  if (said.empty())
    return configured == model::ValueHeadType::sigmoid ? configured : model::ValueHeadType::linear;
  const model::ValueHeadType type = model::value_head_type(said);
  if (type == model::ValueHeadType::mlp)
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: its configuration says that the value head is of type mlp, its "
                            "tensors are value_head.linear.*",
                            weights.file_of(*linear)));
  return type;
}

// Both tensors of every projection of which the file has one.
std::vector<layout::ParamSpec> adapters_in(const WeightSource& weights,
                                           const std::vector<layout::UnitSpec>& units,
                                           std::optional<std::int64_t> rank) {
  std::vector<layout::ParamSpec> adapters;
  for (const layout::UnitSpec& unit : units)
    for (const layout::ParamSpec& param : unit.params) {
      if (param.shape.size() != 2 || !param.name.ends_with("_proj.weight")) continue;
      const std::string a = adapter_name(param.name, "A"), b = adapter_name(param.name, "B");
      const StoredTensor* stored = weights.find(a);
      if (!stored && !weights.find(b)) continue;
      const bool says_rank = stored && !stored->shape.empty();
      const std::int64_t rows =
          std::max<std::int64_t>(rank.value_or(says_rank ? stored->shape[0] : 1), 1);
      adapters.push_back({a, {rows, param.shape[1]}});
      adapters.push_back({b, {param.shape[0], rows}});
    }
  return adapters;
}

struct FileParts {
  bool whole = false;         // all of the model, or only what was trained
  bool borrows_head = false;  // the unembedding comes from the base
  std::vector<layout::ParamSpec> adapters;
};

void check_file(const WeightSource& weights, const OpenedModel& model, const FileParts& parts) {
  weights::WeightExpectations expected;
  expected.origin = weights.file_of(weights.tensors().front());
  for (const layout::UnitSpec& unit : model::model_units(model.config)) {
    layout::UnitSpec wanted{unit.name, {}};
    for (const layout::ParamSpec& param : unit.params) {
      const bool borrowed = parts.borrows_head && param.name == kUnembedding;
      if (parts.whole ? !borrowed : weights.find(param.name) != nullptr)
        wanted.params.push_back(param);
    }
    expected.units.push_back(std::move(wanted));
  }
  expected.units.push_back({"adapters", parts.adapters});
  const bool brings_value_head =
      weights.find("value_head.mlp.0.weight") || weights.find("value_head.linear.weight");
  if (brings_value_head || (model.value_head && !model.has_weights()))
    expected.units.push_back(model::value_head_unit(*model.value_head, model.config.dim));
  expected.tied = model.config.tied;
  expected.inv_freq = model::inv_freq(model.config);
  weights::check_weights(weights, expected);
}

model::LoraConfig lora_in(const std::vector<layout::ParamSpec>& adapters,
                          const TorchCheckpoint& said, const model::ModelConfig& config) {
  model::LoraConfig lora;
  lora.dropout = said.dropout;
  AdaptedBlocks blocks(config);
  for (const layout::ParamSpec& param : adapters) {
    if (!param.name.ends_with(".lora_A.weight")) continue;
    const std::string module(adapted_module(param.name));
    lora.modules[module] = {param.shape[0], said.alpha};
    blocks.add(module);
  }
  lora.scope = blocks.scope();
  settle_targets(lora, config);
  return model::checked(std::move(lora), config);
}

void check_lora_numbers(const TorchCheckpoint& said, const std::string& file) {
  const auto refuse = [&file](const char* key, double value, const char* must) {
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: {} is {}, must be {}", file, key, value, must));
  };
  if (!(said.alpha > 0 && std::isfinite(said.alpha)))
    refuse("lora_config.alpha", said.alpha, "a positive number");
  if (!(said.dropout >= 0 && said.dropout < 1))
    refuse("lora_config.dropout", said.dropout, "within [0, 1)");
}

}  // namespace

OpenedModel with_python_checkpoint(OpenedModel model, std::unique_ptr<WeightSource> weights,
                                   const TorchCheckpoint& said) {
  weights = weights::rename(std::move(weights), python_names(model.config));
  if (const auto type = stored_value_head(*weights, said.value_head, model.value_head))
    model.value_head = type;
  const auto units = model::model_units(model.config);
  FileParts parts;
  parts.whole = !said.adapters_only;
  parts.borrows_head = !weights->find(kUnembedding) && model.has_weights() &&
                       model.folder.weights->find(kUnembedding);
  parts.adapters = adapters_in(*weights, units, said.rank);
  check_file(*weights, model, parts);
  model.lora.reset();
  if (!parts.adapters.empty()) {
    check_lora_numbers(said, weights->file_of(weights->tensors().front()));
    model.lora = lora_in(parts.adapters, said, model.config);
    for (const layout::UnitSpec& unit : units)
      for (const layout::ParamSpec& param : unit.params)
        model.changes_base |= weights->find(param.name) != nullptr;
  }
  if (model.has_weights())
    weights = weights::overlay(std::move(model.folder.weights), std::move(weights));
  model.folder.weights = std::move(weights);
  model.step.reset();
  model.fingerprint.clear();
  return model;
}

}  // namespace wmtp::models
