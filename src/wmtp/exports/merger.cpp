#include "wmtp/exports/merger.h"

#include "wmtp/model/adapters.h"
#include "wmtp/models/adapter_folder.h"

namespace wmtp::exports {
namespace {

constexpr std::string_view kWeight = ".weight";

}  // namespace

AdapterMerger::AdapterMerger(const model::ModelConfig& config, const model::LoraConfig& lora,
                             Calls calls)
    : lora_(lora), calls_(std::move(calls)) {
  for (const layout::ParamSpec& param : models::adapter_params(config, lora))
    waiting_.try_emplace(std::string(models::adapted_module(param.name)));
}

void AdapterMerger::take(const std::string& name, const Tensor& whole) {
  const std::string_view adapted = models::adapted_module(name);
  const std::string_view module =
      !adapted.empty() ? adapted : std::string_view(name).substr(0, name.size() - kWeight.size());
  const auto at = name.ends_with(kWeight) ? waiting_.find(module) : waiting_.end();
  if (at == waiting_.end()) {
    calls_.put(name, whole, calls_.unquantized(name));
    return;
  }
  Parts& parts = at->second;
  (adapted.empty() ? parts.weight : name.ends_with(".lora_A.weight") ? parts.a : parts.b) = whole;
  if (!parts.complete()) return;
  const auto with_adapter = [&](const Tensor& weight) {
    return model::merged(weight.to(at::kFloat), parts.a, parts.b,
                         lora_.scale(*lora_.adapter_of(at->first)));
  };
  const std::string weight = at->first + std::string(kWeight);
  const Tensor before = calls_.unquantized(weight);
  calls_.put(weight, with_adapter(parts.weight), before.defined() ? with_adapter(before) : before);
  waiting_.erase(at);
}

}  // namespace wmtp::exports
