#include "wmtp/models/python_checkpoint.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/models/adapter_folder.h"
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

// Parameters of a model, some with adapters built in as they are read.
class AdaptedWeights final : public WeightSource {
 public:
  // `units`: what the model has; all of it is in `inner`.
  AdaptedWeights(std::unique_ptr<WeightSource> inner, const std::vector<layout::UnitSpec>& units,
                 double alpha)
      : inner_(std::move(inner)), alpha_(alpha) {
    for (const layout::UnitSpec& unit : units)
      for (const layout::ParamSpec& param : unit.params)
        tensors_.push_back(*inner_->find(param.name));
    std::sort(tensors_.begin(), tensors_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }

  using WeightSource::read;
  std::span<const StoredTensor> tensors() const override { return tensors_; }
  std::string file_of(const StoredTensor& tensor) const override {
    return inner_->file_of(*inner_->find(tensor.name));
  }

  void read(const StoredTensor& tensor, std::int64_t begin, Tensor dst) const override {
    const StoredTensor* a = nullptr;
    if (tensor.name.ends_with(".weight")) a = inner_->find(adapter_name(tensor.name, "A"));
    if (!a) return inner_->read(tensor.name, begin, std::move(dst));
    const Tensor a_RI = rows_of(*a, 0, a->shape[0]), flat = dst.view({-1});
    const StoredTensor& b = *inner_->find(adapter_name(tensor.name, "B"));
    const std::int64_t columns = tensor.shape[1], end = begin + flat.numel();
    const std::int64_t at_once = std::max<std::int64_t>(kPieceElements / columns, 1);
    for (std::int64_t row = begin / columns; row * columns < end; row += at_once) {
      const std::int64_t count = std::min(at_once, (end + columns - 1) / columns - row);
      const Tensor weight = rows_of(*inner_->find(tensor.name), row, count);
      const double scale = alpha_ / static_cast<double>(a->shape[0]);
      const Tensor sum = at::addmm(weight, rows_of(b, row, count), a_RI, 1, scale).view({-1});
      const std::int64_t first = std::max(begin, row * columns);
      const std::int64_t last = std::min(end, (row + count) * columns);
      flat.narrow(0, first - begin, last - first)
          .copy_(sum.narrow(0, first - row * columns, last - first));
    }
  }

 private:
  static constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;

  Tensor rows_of(const StoredTensor& tensor, std::int64_t first, std::int64_t count) const {
    const Tensor rows = at::empty({count, tensor.shape[1]}, at::kFloat);
    inner_->read(tensor, first * tensor.shape[1], rows);
    return rows;
  }

  std::unique_ptr<WeightSource> inner_;
  double alpha_;
  std::vector<StoredTensor> tensors_;
};

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

}  // namespace

OpenedModel with_python_checkpoint(OpenedModel model, std::unique_ptr<WeightSource> weights,
                                   const TorchCheckpoint& said) {
  weights = weights::rename(std::move(weights), python_names(model.config));
  if (const auto type = stored_value_head(*weights, said.value_head, model.value_head))
    model.value_head = type;
  auto units = model::model_units(model.config);
  FileParts parts;
  parts.whole = !said.adapters_only;
  parts.borrows_head = !weights->find(kUnembedding) && model.has_weights() &&
                       model.folder.weights->find(kUnembedding);
  parts.adapters = adapters_in(*weights, units, said.rank);
  check_file(*weights, model, parts);
  if (!parts.adapters.empty() && !(said.alpha > 0 && std::isfinite(said.alpha)))
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: lora_config.alpha is {}, must be a positive number",
                            weights->file_of(weights->tensors().front()), said.alpha));
  if (model.value_head)
    units.push_back(model::value_head_unit(*model.value_head, model.config.dim));
  if (model.has_weights())
    weights = weights::overlay(std::move(model.folder.weights), std::move(weights));
  model.folder.weights = std::make_unique<AdaptedWeights>(std::move(weights), units, said.alpha);
  model.lora.reset();
  model.step.reset();
  model.fingerprint.clear();
  return model;
}

}  // namespace wmtp::models
