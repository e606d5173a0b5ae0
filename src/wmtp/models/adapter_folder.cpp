#include "wmtp/models/adapter_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/models/adapters/adapted_modules.h"
#include "wmtp/weights/peft/peft_targets.h"
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

// What the tensors say is adapted. Tensors that fit nothing are left to the check of names.
struct Adapted {
  explicit Adapted(const model::ModelConfig& config) : blocks(config) {}
  std::set<std::string, std::less<>> modules;  // projections of blocks
  AdaptedBlocks blocks;
};

Adapted adapted_modules(const weights::WeightSource& source, const model::ModelConfig& config) {
  Adapted adapted(config);
  for (const weights::StoredTensor& tensor : source.tensors()) {
    if (tensor.name.find("lora_embedding_") != tensor.name.npos)
      throw Error(ErrorKind::config, "peft",
                  fmt::format("{} adapts an embedding ({})", source.file_of(tensor), tensor.name),
                  "wmtp adapts the projections of blocks");
    const std::string_view module = adapted_module(tensor.name);
    if (adapted.blocks.add(module) && model::projection_name(last_part(module)))
      adapted.modules.emplace(module);
  }
  if (!adapted.blocks.any())
    throw Error(ErrorKind::config, "peft",
                fmt::format("the adapter's {} tensors belong to no block of the model",
                            source.tensors().size()),
                "was it trained on this model?");
  return adapted;
}

// What the configuration adapts of the blocks in scope. `lora` has all projections for targets.
void choose_modules(const weights::PeftConfig& peft, const std::string& origin,
                    const model::ModelConfig& config, model::LoraConfig& lora) {
  const weights::PeftTargets targets(peft, origin);
  for (const layout::ParamSpec& param : adapter_params(config, lora)) {
    const std::string module(adapted_module(param.name));
    if (targets.adapts(module))
      lora.modules[module] = {targets.rank(module), targets.alpha(module)};
  }
  if (lora.modules.empty())
    throw Error(ErrorKind::config, "peft",
                fmt::format("{}: its target_modules are no projections of the model", origin),
                "was it trained on this model?");
  settle_targets(lora, config);
}

// PEFT leaves such tensors out with a warning: which of the two files is right, nobody knows.
void refuse_other_tensors(const weights::PeftConfig& peft, const std::string& origin,
                          const Adapted& adapted, const model::LoraConfig& lora) {
  for (const std::string& module : adapted.modules) {
    const bool is_target = std::ranges::find(lora.targets, last_part(module)) != lora.targets.end();
    if (is_target && lora.adapter_of(module)) continue;
    throw Error(
        ErrorKind::config, "peft",
        fmt::format("{}: the adapter has tensors of {}, which target_modules ({}) and the keys "
                    "beside it do not adapt",
                    origin, module,
                    peft.target_pattern.empty() ? fmt::format("{}", fmt::join(peft.targets, ", "))
                                                : peft.target_pattern),
        "is this the configuration that was saved with the tensors?");
  }
}

model::LoraConfig lora_of(const weights::PeftConfig& peft, const std::string& origin,
                          const Adapted& adapted, const model::ModelConfig& config) {
  model::LoraConfig lora;
  lora.rank = peft.rank, lora.alpha = peft.alpha, lora.dropout = peft.dropout;
  lora.rslora = peft.rslora;
  lora.scope = adapted.blocks.scope();
  lora.targets.clear();
  for (const std::string& target : peft.targets) lora.targets.emplace_back(last_part(target));
  if (!lora.targets.empty()) model::checked(lora, config);  // unknown names are refused
  lora.targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  choose_modules(peft, origin, config, lora);
  refuse_other_tensors(peft, origin, adapted, lora);
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
  opened.lora = lora_of(peft, (folder / kAdapterConfigFile).string(),
                        adapted_modules(*opened.weights, config), config);
  check_adapter(folder, opened, config);
  return opened;
}

}  // namespace wmtp::models
