#include "wmtp/models/adapter_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/weights/peft_config.h"
#include "wmtp/weights/weight_check.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;

std::optional<layout::MappedName> our_name(std::string_view stored) {
  auto name = model::from_peft_name(stored);
  return name ? std::optional(layout::MappedName{std::move(*name)}) : std::nullopt;
}

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

std::optional<model::ValueHeadType> value_head_of(const fs::path& folder) {
  if (!fs::exists(folder / kValueHeadFile)) return std::nullopt;
  const auto file = weights::SafetensorsFile::open(folder / kValueHeadFile);
  const auto type = file.metadata().find(kValueHeadKey);
  if (type == file.metadata().end())
    throw Error(ErrorKind::config, "peft",
                fmt::format("{} does not say of which type its value head is",
                            (folder / kValueHeadFile).string()),
                fmt::format("its metadata lacks the key {}", kValueHeadKey));
  return model::value_head_type(type->second);
}

std::unique_ptr<weights::WeightSource> open_files(const fs::path& folder, bool with_heads) {
  if (!fs::exists(folder / kAdapterFile))
    throw Error(ErrorKind::config, "peft",
                fmt::format("{} has no {}", folder.string(), kAdapterFile),
                "adapters in .bin files: load them with PEFT and save_pretrained them again");
  std::vector<std::unique_ptr<weights::WeightSource>> parts;
  for (const char* name : {kAdapterFile, kAdapterHeadsFile, kValueHeadFile}) {
    if (!fs::exists(folder / name) || (name == kAdapterHeadsFile && !with_heads)) continue;
    parts.push_back(std::make_unique<weights::SafetensorsSource>(
        weights::SafetensorsFile::open(folder / name)));
  }
  return weights::join(std::move(parts));
}

// What the configuration and the tensors together say is adapted. Tensors that fit nothing are
// left to the check of names.
struct Adapted {
  std::vector<std::string> targets;
  bool trunk = false, heads = false;
};

void note_tensor(const weights::StoredTensor& tensor, const model::ModelConfig& config,
                 const std::vector<layout::UnitSpec>& units, Adapted& adapted) {
  const std::string_view module = adapted_module(tensor.name);
  for (std::size_t u = 1; u < units.size(); ++u) {
    if (!module.starts_with(units[u].name + ".")) continue;
    const bool is_head = static_cast<std::int64_t>(u) > config.num_trunk_blocks();
    (is_head ? adapted.heads : adapted.trunk) = true;
    if (model::projection_name(last_part(module))) adapted.targets.emplace_back(last_part(module));
  }
}

Adapted adapted_modules(const weights::WeightSource& source, const std::vector<std::string>& named,
                        const model::ModelConfig& config) {
  Adapted adapted;
  for (const std::string& target : named) adapted.targets.emplace_back(last_part(target));
  const auto units = model::model_units(config);
  for (const weights::StoredTensor& tensor : source.tensors()) {
    if (tensor.name.find("lora_embedding_") != tensor.name.npos)
      throw Error(ErrorKind::config, "peft",
                  fmt::format("{} adapts an embedding ({})", source.file_of(tensor), tensor.name),
                  "wmtp adapts the projections of blocks");
    note_tensor(tensor, config, units, adapted);
  }
  if (!adapted.trunk && !adapted.heads)
    throw Error(ErrorKind::config, "peft",
                fmt::format("the adapter's {} tensors belong to no block of the model",
                            source.tensors().size()),
                "was it trained on this model?");
  return adapted;
}

model::LoraConfig lora_of(const weights::PeftConfig& peft, const Adapted& adapted,
                          const model::ModelConfig& config) {
  model::LoraConfig lora;
  lora.rank = peft.rank, lora.alpha = peft.alpha, lora.dropout = peft.dropout;
  lora.rslora = peft.rslora;
  lora.targets = adapted.targets;
  if (config.n_future > 1)
    lora.scope = !adapted.heads   ? model::LoraScope::trunk
                 : !adapted.trunk ? model::LoraScope::heads
                                  : model::LoraScope::both;
  return model::checked(std::move(lora), config);
}

void check_adapter(const fs::path& folder, const OpenedAdapter& opened,
                   const model::ModelConfig& config) {
  weights::WeightExpectations expected;
  expected.origin = "adapter " + folder.string();
  expected.units.push_back({"adapters", adapter_params(config, opened.lora)});
  if (opened.value_head)
    expected.units.push_back(model::value_head_unit(*opened.value_head, config.dim));
  weights::check_weights(*opened.weights, expected);
}

}  // namespace

bool is_adapter_folder(const fs::path& path) {
  return fs::exists(path / kAdapterConfigFile) && !fs::exists(path / "config.json");
}

std::string_view adapted_module(std::string_view name) {
  for (std::string_view end : {".lora_A.weight", ".lora_B.weight"})
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  return {};
}

bool is_adapter_param(std::string_view name) {
  return !adapted_module(name).empty();
}

std::vector<layout::ParamSpec> adapter_params(const model::ModelConfig& config,
                                              const model::LoraConfig& lora) {
  std::vector<layout::ParamSpec> params;
  for (const layout::UnitSpec& unit : model::lora_units(config, lora))
    for (const layout::ParamSpec& param : unit.params)
      if (is_adapter_param(param.name)) params.push_back(param);
  return params;
}

std::unique_ptr<weights::WeightSource> open_adapter_tensors(const fs::path& folder) {
  return open_files(folder, true);
}

OpenedAdapter open_adapter(const fs::path& folder, const model::ModelConfig& config) {
  if (!fs::exists(folder / kAdapterConfigFile))
    throw Error(ErrorKind::config, "peft",
                fmt::format("{} has no {}", folder.string(), kAdapterConfigFile),
                "name the folder that PEFT's save_pretrained wrote");
  const weights::PeftConfig peft = weights::read_peft_config(folder / kAdapterConfigFile);
  const bool has_heads = fs::exists(folder / kAdapterHeadsFile);
  if (has_heads && config.n_future == 1)
    log::warn("peft", "{}: the model has no extra heads; {} is not read", folder.string(),
              kAdapterHeadsFile);
  OpenedAdapter opened;
  opened.base_model = peft.base_model;
  opened.value_head = value_head_of(folder);
  opened.weights = weights::rename(open_files(folder, config.n_future > 1), our_name);
  opened.lora = lora_of(peft, adapted_modules(*opened.weights, peft.targets, config), config);
  check_adapter(folder, opened, config);
  return opened;
}

}  // namespace wmtp::models
