#include "wmtp/models/adapters/adapted_modules.h"

#include <algorithm>
#include <set>
#include <string>

#include "wmtp/core/error.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/adapter_folder.h"

namespace wmtp::models {
namespace {

std::string projection_in(std::string_view module) {
  return std::string(module.substr(module.rfind('.') + 1));
}

}  // namespace

AdaptedBlocks::AdaptedBlocks(const model::ModelConfig& config)
    : num_trunk_blocks_(static_cast<std::size_t>(config.num_trunk_blocks())),
      has_extra_heads_(config.n_future > 1),
      units_(model::model_units(config)) {}

bool AdaptedBlocks::add(std::string_view module) {
  for (std::size_t u = 1; u < units_.size(); ++u) {
    if (!module.starts_with(units_[u].name + ".")) continue;
    (u > num_trunk_blocks_ ? heads_ : trunk_) = true;
    return true;
  }
  return false;
}

model::LoraScope AdaptedBlocks::scope() const {
  if (!has_extra_heads_ || (trunk_ && heads_)) return model::LoraScope::both;
  return heads_ ? model::LoraScope::heads : model::LoraScope::trunk;
}

void settle_targets(model::LoraConfig& lora, const model::ModelConfig& config) {
  WMTP_CHECK(!lora.modules.empty(), "no adapted modules");
  std::set<std::string> projections;
  for (const auto& [name, module] : lora.modules) projections.insert(projection_in(name));
  lora.targets.assign(projections.begin(), projections.end());
  const model::LoraModule first = lora.modules.begin()->second;
  if (!std::ranges::all_of(lora.modules, [&](const auto& m) { return m.second == first; })) return;
  lora.rank = first.rank, lora.alpha = first.alpha;
  model::LoraConfig without_modules = lora;
  without_modules.modules.clear();
  const auto all = adapter_params(config, without_modules);
  const bool is_complete = std::ranges::all_of(all, [&lora](const layout::ParamSpec& param) {
    return lora.modules.contains(adapted_module(param.name));
  });
  if (is_complete) lora.modules.clear();
}

}  // namespace wmtp::models
