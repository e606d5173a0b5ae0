#include "wmtp/model/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "wmtp/core/error.h"
#include "wmtp/model/weight_names.h"

namespace wmtp::model {
namespace {

constexpr std::array<std::string_view, 7> kProjections{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                       "gate_proj", "up_proj", "down_proj"};

// "q_proj" of "model.layers.3.self_attn.q_proj.weight"; empty for other parameters.
std::string_view projection_of(std::string_view name) {
  if (!name.ends_with("_proj.weight")) return {};
  name.remove_suffix(std::string_view(".weight").size());
  return name.substr(name.rfind('.') + 1);
}

// Which of a block's four inputs the projection reads.
int input_of(std::string_view projection) {
  if (projection == "down_proj") return 3;
  if (projection == "gate_proj" || projection == "up_proj") return 2;
  return projection == "o_proj" ? 1 : 0;
}

void check_module(const LoraModule& module, const std::string& whose) {
  if (module.rank < 1 || module.rank > 1024)
    throw Error(ErrorKind::config, "lora",
                fmt::format("rank {}{} is not within 1..1024", module.rank, whose));
  if (!(module.alpha > 0 && std::isfinite(module.alpha)))
    throw Error(ErrorKind::config, "lora",
                fmt::format("alpha {}{} is not a positive number", module.alpha, whose));
}

}  // namespace

double LoraConfig::scale(const LoraModule& module) const {
  const auto r = static_cast<double>(module.rank);
  return rslora ? module.alpha / std::sqrt(r) : module.alpha / r;
}

std::optional<LoraModule> LoraConfig::adapter_of(std::string_view module) const {
  if (modules.empty()) return LoraModule{rank, alpha};
  const auto found = modules.find(module);
  return found == modules.end() ? std::nullopt : std::optional(found->second);
}

LoraConfig checked(LoraConfig lora, const ModelConfig& config) {
  check_module({lora.rank, lora.alpha}, "");
  for (const auto& [name, module] : lora.modules) check_module(module, " of " + name);
  if (!(lora.dropout >= 0 && lora.dropout < 1))
    throw Error(ErrorKind::config, "lora",
                fmt::format("dropout {} is not within [0, 1)", lora.dropout));
  std::vector<std::string> wanted, unknown;
  for (const std::string& target : lora.targets) {
    const auto name = projection_name(target);
    name ? wanted.emplace_back(*name) : unknown.emplace_back(target);
  }
  if (!unknown.empty())
    throw Error(
        ErrorKind::config, "lora",
        fmt::format("unknown target_modules {}", fmt::join(unknown, ", ")),
        fmt::format("known are {} and Meta's wq wk wv wo w1 w3 w2", fmt::join(kProjections, ", ")));
  lora.targets.clear();
  for (std::string_view projection : kProjections)
    if (std::ranges::find(wanted, projection) != wanted.end())
      lora.targets.emplace_back(projection);
  if (lora.targets.empty())
    throw Error(ErrorKind::config, "lora", "no target modules", "name at least one projection");
  if (lora.scope == LoraScope::heads && config.n_future == 1)
    throw Error(ErrorKind::config, "lora",
                "scope heads, but the model has no prediction heads of its own",
                "use scope trunk or both");
  if (lora.scope == LoraScope::trunk && config.num_trunk_blocks() == 0 && !lora.train_heads)
    throw Error(ErrorKind::config, "lora",
                "scope trunk, but every block of the model is a prediction head's",
                "use scope heads or both");
  return lora;
}

LoraRole lora_role(const ModelConfig& config, const LoraConfig& lora, std::size_t unit) {
  if (unit == 0) return LoraRole::frozen;
  const bool is_head = static_cast<std::int64_t>(unit) > config.num_trunk_blocks();
  if (is_head) {
    if (lora.scope != LoraScope::trunk) return LoraRole::adapted;
    return lora.train_heads ? LoraRole::whole : LoraRole::frozen;
  }
  return lora.scope == LoraScope::heads ? LoraRole::frozen : LoraRole::adapted;
}

std::vector<layout::UnitSpec> lora_units(const ModelConfig& config, const LoraConfig& lora) {
  std::vector<layout::UnitSpec> units = model_units(config);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const LoraRole role = lora_role(config, lora, u);
    if (role == LoraRole::whole) continue;
    std::array<std::vector<layout::ParamSpec>, 4> a, b;  // by input
    for (layout::ParamSpec& param : units[u].params) {
      param.trained = false;
      const std::string_view projection = projection_of(param.name);
      if (role != LoraRole::adapted ||
          std::ranges::find(lora.targets, projection) == lora.targets.end())
        continue;
      const std::string module =
          param.name.substr(0, param.name.size() - std::string_view(".weight").size());
      const std::optional<LoraModule> adapter = lora.adapter_of(module);
      if (!adapter) continue;
      const auto input = static_cast<std::size_t>(input_of(projection));
      a[input].push_back({module + ".lora_A.weight", {adapter->rank, param.shape[1]}});
      b[input].push_back({module + ".lora_B.weight", {param.shape[0], adapter->rank}});
    }
    for (std::size_t input = 0; input < a.size(); ++input)
      for (auto* adapters : {&a[input], &b[input]})
        std::ranges::move(*adapters, std::back_inserter(units[u].params));
  }
  return units;
}

std::int64_t lora_parameters(const ModelConfig& config, const LoraConfig& lora) {
  std::int64_t sum = 0;
  for (const layout::UnitSpec& unit : lora_units(config, lora))
    for (const layout::ParamSpec& param : unit.params)
      if (param.trained) sum += param.numel();
  return sum;
}

std::vector<std::string> dropout_sites(const ModelConfig& config, const LoraConfig& lora) {
  constexpr std::string_view kEnd = ".lora_A.weight";
  std::vector<std::string> sites;
  if (lora.dropout <= 0) return sites;
  for (const layout::UnitSpec& unit : lora_units(config, lora))
    for (const layout::ParamSpec& param : unit.params)
      if (param.name.ends_with(kEnd))
        sites.push_back(param.name.substr(0, param.name.size() - kEnd.size()));
  return sites;
}

}  // namespace wmtp::model
