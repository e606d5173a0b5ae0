#include "wmtp/models/checkpoint_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/config/derived.h"
#include "wmtp/core/error.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/base_fingerprint.h"
#include "wmtp/models/base_source.h"
#include "wmtp/models/lora_settings.h"
#include "wmtp/models/nf4/quantized_base.h"
#include "wmtp/models/read_elements.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/remote/model_copy.h"
#include "wmtp/models/run_paths.h"
#include "wmtp/models/saved_config.h"
#include "wmtp/storage/file_system.h"
#include "wmtp/weights/safetensors_tensor.h"
#include "wmtp/weights/weight_check.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_checkpoint(const std::string& fact, const std::string& hint = {}) {
  throw Error(ErrorKind::config, "checkpoint", fact, hint);
}

// The tensors of model/ of a checkpoint.
class CheckpointWeights final : public weights::WeightSource {
 public:
  explicit CheckpointWeights(const fs::path& folder)
      : files_(files_of(folder)), reader_(*files_, folder) {
    reader_.check_presence();
    for (const auto& [name, record] : reader_.manifest().model_tensors) {
      weights::StoredTensor tensor;
      tensor.name = name;
      tensor.dtype = record.dtype;
      tensor.shape = record.shape;
      tensors_.push_back(std::move(tensor));
    }
  }

  using WeightSource::read;
  std::span<const weights::StoredTensor> tensors() const override { return tensors_; }
  void read(const weights::StoredTensor& tensor, std::int64_t begin, Tensor dst) const override {
    const std::lock_guard lock(mutex_);
    read_elements(reader_, tensor.name, begin, dst);
  }
  std::string file_of(const weights::StoredTensor&) const override {
    return reader_.folder().string();
  }

  const checkpoint::Manifest& manifest() const { return reader_.manifest(); }
  std::string text(std::string_view path) const {
    const std::lock_guard lock(mutex_);
    return reader_.text(path);
  }

 private:
  std::shared_ptr<const storage::FileSystem> files_;
  mutable std::mutex mutex_;
  mutable checkpoint::CheckpointReader reader_;
  std::vector<weights::StoredTensor> tensors_;
};

// Parameters that functions fill in, as fp32 tensors.
class FilledWeights final : public weights::WeightSource {
 public:
  FilledWeights(const std::vector<layout::UnitSpec>& units, QuantizedBase base, std::string origin)
      : base_(std::move(base)), origin_(std::move(origin)) {
    for (const layout::UnitSpec& unit : units)
      params_.insert(params_.end(), unit.params.begin(), unit.params.end());
    std::sort(params_.begin(), params_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const layout::ParamSpec& param : params_) {
      weights::StoredTensor tensor;
      tensor.name = param.name;
      tensor.dtype = weights::StoredDtype::F32;
      tensor.shape = param.shape;
      tensors_.push_back(std::move(tensor));
    }
  }

  using WeightSource::read;
  std::span<const weights::StoredTensor> tensors() const override { return tensors_; }
  void read(const weights::StoredTensor& tensor, std::int64_t begin, Tensor dst) const override {
    base_.fill(param(tensor), begin, dst);
  }
  std::optional<kernels::Nf4Weights> read_nf4(const weights::StoredTensor& tensor,
                                              std::int64_t begin,
                                              std::int64_t count) const override {
    return base_.stored_nf4 ? base_.stored_nf4(param(tensor), begin, count) : std::nullopt;
  }
  bool has_nf4(const weights::StoredTensor& tensor) const override {
    return base_.nf4_names.contains(tensor.name);
  }
  std::string file_of(const weights::StoredTensor&) const override { return origin_; }

 private:
  const layout::ParamSpec& param(const weights::StoredTensor& tensor) const {
    return params_[static_cast<std::size_t>(&tensor - tensors_.data())];
  }

  QuantizedBase base_;
  std::string origin_;
  std::vector<layout::ParamSpec> params_;  // parallel to tensors_
  std::vector<weights::StoredTensor> tensors_;
};

std::vector<layout::UnitSpec> units_of(const OpenedModel& opened) {
  auto units = opened.lora ? model::lora_units(opened.config, *opened.lora)
                           : model::model_units(opened.config);
  if (opened.value_head)
    units.push_back(model::value_head_unit(*opened.value_head, opened.config.dim));
  return units;
}

// The model that the run started from.
config::ModelLocation& base_place(config::Config& config) {
  auto& value_model = config.models.value_model.path;
  const bool critic = config.experiment.stage == config::Stage::critic && value_model;
  return critic ? *value_model : config.models.policy.path;
}

// What an export brings beside the weights; empty paths for what is not there any more.
struct BaseFiles {
  fs::path tokenizer_folder;   // the run's own, else that of the model it started from
  fs::path generation_config;  // of the model it started from
};

BaseFiles files_of_base(config::Config config, const weights::Environment& environment,
                        const std::string& base_model) {
  const config::PolicyModel& policy = config.models.policy;
  if (!base_model.empty()) base_place(config).text = base_model;
  BaseFiles found;
  try {
    if (policy.tokenizer_path)
      found.tokenizer_folder = locate_tokenizer(policy.tokenizer_path->text, environment);
    if (model::find_preset(policy.path.text)) return found;
    const OpenedModel base = open_model(policy.path.text, environment);
    if (!policy.tokenizer_path) found.tokenizer_folder = base.folder.tokenizer_folder;
    found.generation_config = base.generation_config;
  } catch (const Error&) {
  }
  return found;
}

void require_fingerprint(const OpenedModel& opened, const std::string& wanted,
                         const std::string& place, const std::string& found) {
  if (wanted == found || !is_fingerprint(wanted)) return;
  refuse_checkpoint(
      fmt::format("{} holds adapters only, trained upon a base with the fingerprint {}; {} has {}",
                  opened.folder.folder.string(), wanted, place, found),
      "name the right base with --base-model or, of a frozen model, base_model_path");
}

struct BaseSearch {
  const weights::Environment& environment;
  const std::string& base_model;  // empty: what the run's configuration names
};

// The base's weights as the run had them. What is quantised was rounded before to the dtype that
// frozen weights are stored in, and not at all where the configuration names none.
QuantizedBase base_weights(const ModelSource& base, const config::Config& config,
                           OpenedModel& opened) {
  std::vector<layout::UnitSpec> units = units_of(opened);
  if (config::base_quantize(config) == config::Quantize::none) return stored_base(base, units);
  model::quantize_projections(units);
  opened.unquantized = unquantized_weights(base, units);
  const auto dtype = config::base_dtype(config);
  return quantized_base(base, units, dtype ? dtype_from_name(config::name_of(*dtype)) : kFloat32);
}

// The frozen base that a LoRA-only checkpoint leaves out, as the run had it.
std::unique_ptr<weights::WeightSource> base_of(OpenedModel& opened, config::Config config,
                                               const std::string& fingerprint,
                                               const BaseSearch& search) {
  config::ModelLocation& place = base_place(config);
  if (!search.base_model.empty()) place.text = search.base_model;
  std::optional<BaseSource> base;
  try {
    base = open_base(config, search.environment);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config || !search.base_model.empty()) throw;
    refuse_checkpoint(fmt::format("{} holds adapters only, and its base {} cannot be opened: {}",
                                  opened.folder.folder.string(), place.text, error.fact()),
                      "name the base with --base-model or, of a frozen model, base_model_path");
  }
  require_fingerprint(opened, fingerprint, place.text, base->source.fingerprint());
  return std::make_unique<FilledWeights>(model::model_units(opened.config),
                                         base_weights(base->source, config, opened), place.text);
}

// The model that the run started from, where it still is.
std::vector<fs::path> place_of_base(const std::string& base,
                                    const weights::Environment& environment) {
  try {
    if (!model::find_preset(base)) return {resolve_model_path(locate(base, environment))};
  } catch (const Error&) {
  }
  return {};
}

}  // namespace

OpenedModel open_checkpoint(const fs::path& folder, const weights::Environment& environment,
                            const std::string& base_model) {
  auto weights = std::make_unique<CheckpointWeights>(folder);
  config::Config saved = load_saved_config(weights->text("config.yaml"), environment).config;
  const fs::path shape_file = folder / "config.json";
  const model::HfConfig shape = model::parse_hf_config(
      parse_json(weights->text("config.json"), shape_file.string()), shape_file.string());
  OpenedModel opened;
  opened.config = shape.model;
  const config::DType exported = saved.models.policy.dtype.value_or(config::DType::bf16);
  opened.config.dtype = exported == config::DType::fp32   ? "float32"
                        : exported == config::DType::fp16 ? "float16"
                                                          : "bfloat16";
  opened.value_head = shape.extras.value_head;
  opened.lora = lora_of(saved, opened.config);
  if (!base_model.empty() && !opened.lora)
    refuse_checkpoint(
        fmt::format("{} has no adapters; a base model goes with adapters only", folder.string()));
  opened.fingerprint = weights->manifest().self_sha256;
  const std::string base = base_model.empty() ? base_place(saved).text : base_model;
  if (opened.lora) opened.base_model = base;
  opened.read_from = place_of_base(base, environment);
  opened.step = weights->manifest().step;
  opened.folder.folder = folder;
  opened.folder.config_file = shape_file;
  opened.folder.config_format = weights::ConfigFormat::hf_config;
  const BaseFiles files = files_of_base(saved, environment, base_model);
  opened.folder.tokenizer_folder = files.tokenizer_folder;
  opened.generation_config = files.generation_config;
  const bool adapters_only = weights->manifest().kind == checkpoint::CheckpointKind::lora;
  if (adapters_only) {
    auto base =
        base_of(opened, saved, weights->manifest().fingerprints.base, {environment, base_model});
    opened.folder.weights = weights::overlay(std::move(base), std::move(weights));
  } else {
    opened.folder.weights = std::move(weights);
  }
  weights::WeightExpectations expected;
  expected.origin = folder.string();
  expected.units = units_of(opened);
  expected.tied = opened.config.tied;
  weights::check_weights(*opened.folder.weights, expected);
  return opened;
}

}  // namespace wmtp::models
