#include "wmtp/models/open_model.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/meta_params.h"
#include "wmtp/models/adapter_folder.h"
#include "wmtp/models/checkpoint_model.h"
#include "wmtp/models/export_mark.h"
#include "wmtp/models/python_checkpoint.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/remote/model_copy.h"
#include "wmtp/models/run_paths.h"
#include "wmtp/models/token_ids.h"
#include "wmtp/weights/bitsandbytes/nf4_source.h"
#include "wmtp/weights/peft_config.h"
#include "wmtp/weights/weight_check.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> embedding_rows(const weights::ModelFolder& folder) {
  if (!folder.weights) return std::nullopt;
  for (const char* name : {"tok_embeddings.weight", "model.embed_tokens.weight"})
    if (const auto* tensor = folder.weights->find(name); tensor && !tensor->shape.empty())
      return tensor->shape[0];
  return std::nullopt;
}

// Weights in 4 bits become weights. `said`: the configuration says that there are some.
void take_nf4_back(weights::ModelFolder& folder, bool said) {
  const std::size_t num_stored = folder.weights->tensors().size();
  folder.weights = weights::decode_bitsandbytes(std::move(folder.weights));
  if (said && folder.weights->tensors().size() == num_stored)
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: quantization_config says NF4, and no weight of the folder is "
                            "stored so",
                            folder.config_file.string()),
                "if its weights are whole, take quantization_config out");
}

void read_hf(OpenedModel& opened) {
  const model::HfConfig read = model::read_hf_config(opened.folder.config_file);
  opened.config = read.model;
  opened.value_head = read.extras.value_head;
  if (!opened.has_weights()) return;
  take_nf4_back(opened.folder, read.stored_nf4);
  if (!read.extras.mtp_file.empty()) weights::add_weights_file(opened.folder, read.extras.mtp_file);
  if (!read.extras.value_head) return;
  const auto unit = model::value_head_unit(*read.extras.value_head, opened.config.dim);
  if (!opened.folder.weights->find(unit.params.front().name))
    weights::add_weights_file(opened.folder, kValueHeadFile);
}

void check_opened(const OpenedModel& opened) {
  weights::WeightExpectations expected;
  expected.origin = opened.folder.folder.string();
  expected.units = model::model_units(opened.config);
  if (opened.value_head)
    expected.units.push_back(model::value_head_unit(*opened.value_head, opened.config.dim));
  expected.tied = opened.config.tied;
  expected.inv_freq = model::inv_freq(opened.config);
  weights::check_weights(*opened.folder.weights, expected);
}

void read_config(OpenedModel& opened, const std::string& name) {
  switch (opened.folder.config_format) {
    case weights::ConfigFormat::hf_config:
      read_hf(opened);
      break;
    case weights::ConfigFormat::meta_params:
      opened.config =
          model::read_meta_params(opened.folder.config_file, embedding_rows(opened.folder));
      break;
    case weights::ConfigFormat::none:
      throw Error(ErrorKind::config, "model",
                  fmt::format("{} has no config.json or params.json", name));
  }
}

constexpr const char* kNameTheBase =
    "write its place there as base_model_name_or_path; score, export and merge-lora also take "
    "--base-model";

// What the adapter's configuration calls its base, as a name that open_model takes.
std::string base_of_adapter(const fs::path& adapter) {
  const std::string named = weights::read_peft_config(adapter / kAdapterConfigFile).base_model;
  if (named.empty())
    throw Error(ErrorKind::config, "peft",
                fmt::format("{} names no base model", (adapter / kAdapterConfigFile).string()),
                kNameTheBase);
  const fs::path beside = adapter / named;
  return fs::path(named).is_relative() && fs::exists(beside) ? beside.string() : named;
}

OpenedModel open_adapted(const fs::path& path, const weights::Environment& environment,
                         const std::string& base_model) {
  const std::string base = base_model.empty() ? base_of_adapter(path) : base_model;
  OpenedModel opened;
  try {
    const fs::path base_path = locate(base, environment);
    if (is_adapter_folder(base_path))
      throw Error(ErrorKind::config, "peft",
                  fmt::format("the base {} is itself an adapter", base_path.string()));
    opened = open_model(base_path.string(), environment);
    if (opened.lora)
      throw Error(ErrorKind::config, "peft",
                  fmt::format("the base {} has adapters itself", base_path.string()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config || !base_model.empty()) throw;
    throw Error(
        ErrorKind::config, "peft",
        fmt::format("{}: its base {} cannot be opened: {}", path.string(), base, error.fact()),
        kNameTheBase);
  }
  if (!opened.has_weights())
    throw Error(ErrorKind::config, "peft", fmt::format("the base {} has no weights", base));
  OpenedAdapter adapter = open_adapter(path, opened.config);
  opened.step.reset();  // the base's
  opened.lora = adapter.lora;
  opened.base_model = base_model.empty() ? adapter.base_model : base_model;
  if (adapter.value_head) opened.value_head = adapter.value_head;
  const auto has = [&path](const char* name) { return fs::exists(path / name); };
  if (has("tokenizer.json") || has("tokenizer.model") || has("vocab.json"))
    opened.folder.tokenizer_folder = path;  // what the adapter was trained with
  opened.folder.weights =
      weights::overlay(std::move(opened.folder.weights), std::move(adapter.weights));
  return opened;
}

OpenedModel open_plain(weights::ModelFolder folder, const std::string& name) {
  OpenedModel opened;
  opened.folder = std::move(folder);
  read_config(opened, name);
  const fs::path generation = opened.folder.folder / kGenerationConfigFile;
  if (fs::exists(generation)) opened.generation_config = generation;
  if (!opened.has_weights()) return opened;
  if (opened.folder.meta_names)
    opened.folder.weights =
        weights::rename(std::move(opened.folder.weights), model::meta_name_map(opened.config));
  check_opened(opened);
  return opened;
}

// A model folder, or one weights file: then what lies beside it describes it.
weights::ModelFolder open_described(const fs::path& path) {
  weights::ModelFolder folder = weights::open_model_folder(path);
  if (folder.config_format == weights::ConfigFormat::none) {
    weights::find_config(folder);
    folder.tokenizer_folder = folder.folder;
  }
  return folder;
}

// The base of a checkpoint of the Python project, as the file names it: from here, where the
// Python project ran, or beside the file. A plain model folder, so that files cannot name each
// other in a ring.
OpenedModel open_named_base(const weights::ModelFolder& file, const std::string& name,
                            const weights::Environment& environment) {
  constexpr const char* kHint = "name the base with --base-model or base_model_path";
  const std::string& named = file.torch_checkpoint->base_model;
  if (named.empty())
    throw Error(ErrorKind::config, "model",
                fmt::format("{} is a training checkpoint that names no base model", name), kHint);
  const fs::path beside = file.folder / named;
  try {
    const fs::path path = weights::locate_model(
        !fs::exists(named) && fs::exists(beside) ? beside.string() : named, environment);
    if (!fs::is_directory(path))
      throw Error(ErrorKind::config, "model", fmt::format("{} is no folder", path.string()));
    OpenedModel base = open_plain(open_described(path), path.string());
    base.read_from = {path};
    return base;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: its base {} cannot be opened: {}", name, named, error.fact()),
                kHint);
  }
}

OpenedModel open_python_checkpoint(weights::ModelFolder file, const std::string& name,
                                   const weights::Environment& environment,
                                   const std::string& base_model) {
  const weights::TorchCheckpoint said = *file.torch_checkpoint;
  const bool described = file.config_format != weights::ConfigFormat::none;
  if (base_model.empty() && !said.adapters_only && described) {
    OpenedModel opened;
    opened.folder = std::move(file);
    read_config(opened, name);
    auto weights = std::move(opened.folder.weights);
    return with_python_checkpoint(std::move(opened), std::move(weights), said);
  }
  OpenedModel base = base_model.empty() ? open_named_base(file, name, environment)
                                        : open_model(base_model, environment);
  if (base.lora)
    throw Error(ErrorKind::config, "model", fmt::format("{}: the base has adapters itself", name),
                "merge them first");
  if (said.adapters_only && !base.has_weights())
    throw Error(ErrorKind::config, "model", fmt::format("the base of {} has no weights", name));
  if (said.adapters_only) base.base_model = base_model.empty() ? said.base_model : base_model;
  return with_python_checkpoint(std::move(base), std::move(file.weights), said);
}

// A folder in a bucket: `copy` has its small files, the weights stay where they are.
OpenedModel open_remote(const fs::path& path, const fs::path& copy, const std::string& name) {
  weights::ModelFolder folder = open_described(copy);
  weights::use_remote_weights(folder, files_of(path), path);
  return open_plain(std::move(folder), name);
}

OpenedModel open_other(const fs::path& path, const std::string& name,
                       const weights::Environment& environment, const std::string& base_model) {
  weights::ModelFolder folder = open_described(path);
  const bool is_torch_file = !fs::is_directory(path) && path.extension() != ".safetensors";
  if (is_torch_file && !folder.torch_checkpoint && !base_model.empty())
    folder.torch_checkpoint = weights::TorchCheckpoint{};
  if (folder.torch_checkpoint)
    return open_python_checkpoint(std::move(folder), name, environment, base_model);
  if (!base_model.empty())
    throw Error(
        ErrorKind::config, "model",
        fmt::format("{} is no adapter; a base model goes with adapters and .pt files only", name));
  return open_plain(std::move(folder), name);
}

}  // namespace

OpenedModel open_model(const std::string& name, const weights::Environment& environment,
                       const std::string& base_model) {
  const fs::path path = resolve_model_path(locate(name, environment));
  const bool is_saved = is_checkpoint(path);
  const bool is_copied = is_remote(path) && !is_saved;
  const fs::path place = is_copied ? copy_small_files(path) : path;
  OpenedModel opened = is_saved                   ? open_checkpoint(path, environment, base_model)
                       : is_adapter_folder(place) ? open_adapted(place, environment, base_model)
                       : is_copied && base_model.empty()
                           ? open_remote(path, place, name)
                           : open_other(place, name, environment, base_model);
  opened.read_from.insert(opened.read_from.begin(), path);
  if (const auto mark = read_export_mark(path)) opened.step = mark->step;
  return opened;
}

}  // namespace wmtp::models
