#include "wmtp/training/adapter_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "wmtp/checkpoint/peft_config.h"
#include "wmtp/checkpoint/safetensors_tensor.h"
#include "wmtp/checkpoint/weight_check.h"
#include "wmtp/core/error.h"
#include "wmtp/model/weight_names.h"

namespace wmtp::training {
namespace {

namespace fs = std::filesystem;

constexpr const char *kConfigFile = "adapter_config.json", *kFile = "adapter_model.safetensors",
                     *kHeadsFile = "adapter_mtp_heads.safetensors";

std::unique_ptr<checkpoint::WeightSource> open_tensors(const fs::path& folder) {
  std::vector<std::unique_ptr<checkpoint::WeightSource>> parts;
  if (!fs::exists(folder / kFile))
    throw Error(ErrorKind::config, "peft", fmt::format("{} has no {}", folder.string(), kFile),
                "adapters in .bin files: load them with PEFT and save_pretrained them again");
  for (const char* name : {kFile, kHeadsFile})
    if (fs::exists(folder / name))
      parts.push_back(std::make_unique<checkpoint::SafetensorsSource>(
          checkpoint::SafetensorsFile::open(folder / name)));
  return checkpoint::rename(checkpoint::join(std::move(parts)),
                            [](std::string_view stored) -> std::optional<layout::MappedName> {
                              auto name = model::from_peft_name(stored);
                              return name ? std::optional(layout::MappedName{std::move(*name)})
                                          : std::nullopt;
                            });
}

// "model.layers.3.self_attn.q_proj" of its two adapter tensors; empty for other names.
std::string_view module_of(std::string_view name) {
  for (std::string_view end : {".lora_A.weight", ".lora_B.weight"})
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  return {};
}

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

// What the configuration and the tensors together say is adapted. Tensors that fit nothing are
// left to the check of names.
struct Adapted {
  std::vector<std::string> targets;
  bool trunk = false, heads = false;
};

Adapted adapted_modules(const checkpoint::WeightSource& source,
                        const std::vector<std::string>& named, const model::ModelConfig& config) {
  Adapted adapted;
  for (const std::string& target : named) adapted.targets.emplace_back(last_part(target));
  const auto units = model::model_units(config);
  for (const checkpoint::StoredTensor& tensor : source.tensors()) {
    if (tensor.name.find("lora_embedding_") != tensor.name.npos)
      throw Error(ErrorKind::config, "peft",
                  fmt::format("{} adapts an embedding ({})", source.file_of(tensor), tensor.name),
                  "wmtp adapts the projections of blocks");
    const std::string_view module = module_of(tensor.name);
    for (std::size_t u = 1; u < units.size(); ++u)
      if (module.starts_with(units[u].name + ".")) {
        const bool is_head = static_cast<std::int64_t>(u) > config.num_trunk_blocks();
        (is_head ? adapted.heads : adapted.trunk) = true;
        if (model::projection_name(last_part(module)))
          adapted.targets.emplace_back(last_part(module));
      }
  }
  if (!adapted.trunk && !adapted.heads)
    throw Error(ErrorKind::config, "peft",
                fmt::format("the adapter's {} tensors belong to no block of the model",
                            source.tensors().size()),
                "was it trained on this model?");
  return adapted;
}

std::vector<layout::UnitSpec> adapter_units(const model::ModelConfig& config,
                                            const model::LoraConfig& lora) {
  std::vector<layout::UnitSpec> units = model::lora_units(config, lora);
  for (layout::UnitSpec& unit : units)
    std::erase_if(unit.params, [](const auto& param) { return module_of(param.name).empty(); });
  return units;
}

void write_tensors(const fs::path& path, const std::vector<layout::ParamSpec>& params,
                   const AdapterToWrite& adapter, unsigned mode) {
  std::map<std::string, Tensor> tensors;
  std::vector<checkpoint::StoredTensor> entries;
  for (const layout::ParamSpec& param : params) {
    const Tensor tensor = adapter.read(param).contiguous();
    WMTP_CHECK(tensor.sizes().vec() == param.shape, "an adapter tensor has another shape");
    const std::string name = model::to_peft_name(param.name);
    entries.push_back({name, checkpoint::to_stored(tensor.scalar_type()), param.shape});
    tensors.emplace(name, tensor);
  }
  checkpoint::SafetensorsWriter writer(path, std::move(entries), {}, mode);
  for (const auto& entry : writer.tensors())
    writer.write(checkpoint::bytes_of(tensors.at(entry.name)));
  writer.commit();
}

}  // namespace

OpenedAdapter open_adapter(const fs::path& folder, const model::ModelConfig& config) {
  if (!fs::exists(folder / kConfigFile))
    throw Error(ErrorKind::config, "peft",
                fmt::format("{} has no {}", folder.string(), kConfigFile),
                "name the folder that PEFT's save_pretrained wrote");
  const checkpoint::PeftConfig peft = checkpoint::read_peft_config(folder / kConfigFile);
  OpenedAdapter opened{.lora = {}, .base_model = peft.base_model, .weights = open_tensors(folder)};
  const Adapted adapted = adapted_modules(*opened.weights, peft.targets, config);
  model::LoraConfig& lora = opened.lora;
  lora.rank = peft.rank, lora.alpha = peft.alpha, lora.dropout = peft.dropout;
  lora.rslora = peft.rslora;
  lora.targets = adapted.targets;
  if (config.n_future > 1)
    lora.scope = !adapted.heads   ? model::LoraScope::trunk
                 : !adapted.trunk ? model::LoraScope::heads
                                  : model::LoraScope::both;
  lora = model::checked(std::move(lora), config);
  checkpoint::check_weights(*opened.weights,
                            {.units = adapter_units(config, lora), .tied = false, .inv_freq = {}});
  return opened;
}

void write_adapter(const fs::path& folder, const AdapterToWrite& adapter) {
  const model::LoraConfig lora = model::checked(adapter.lora, adapter.config);
  if (lora.train_heads && lora.scope == model::LoraScope::trunk && adapter.config.n_future > 1)
    throw Error(ErrorKind::config, "peft", "heads trained whole do not fit into an adapter",
                "export the merged model instead");
  const unsigned mode =
      adapter.is_public ? storage::AtomicFile::kPublic : storage::AtomicFile::kPrivate;
  std::vector<layout::ParamSpec> base, extra;
  for (const layout::UnitSpec& unit : adapter_units(adapter.config, lora))
    for (const layout::ParamSpec& param : unit.params)
      (param.name.starts_with("model.extra_heads.") ? extra : base).push_back(param);
  fs::create_directories(folder);
  fs::remove(folder / kConfigFile);
  fs::remove(folder / kHeadsFile);
  write_tensors(folder / kFile, base, adapter, mode);
  if (!extra.empty()) write_tensors(folder / kHeadsFile, extra, adapter, mode);
  const checkpoint::PeftConfig peft{.base_model = adapter.base_model,
                                    .rank = lora.rank,
                                    .alpha = lora.alpha,
                                    .dropout = lora.dropout,
                                    .rslora = lora.rslora,
                                    .targets = lora.targets};
  storage::write_file_atomically(folder / kConfigFile, checkpoint::peft_config_text(peft), mode);
}

}  // namespace wmtp::training
