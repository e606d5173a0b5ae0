#include "wmtp/exports/merger.h"

#include "wmtp/model/adapters.h"
#include "wmtp/models/adapter_folder.h"

namespace wmtp::exports {
namespace {

constexpr std::string_view kWeight = ".weight";

}  // namespace

AdapterMerger::AdapterMerger(const model::ModelConfig& config, const model::LoraConfig& lora,
                             Put put)
    : lora_(lora), put_(std::move(put)) {
  for (const layout::ParamSpec& param : models::adapter_params(config, lora))
    waiting_.try_emplace(std::string(models::adapted_module(param.name)));
}

void AdapterMerger::take(const std::string& name, const Tensor& whole) {
  const std::string_view adapted = models::adapted_module(name);
  const std::string_view module =
      !adapted.empty() ? adapted : std::string_view(name).substr(0, name.size() - kWeight.size());
  const auto at = name.ends_with(kWeight) ? waiting_.find(module) : waiting_.end();
  if (at == waiting_.end()) {
    put_(name, whole);
    return;
  }
  Parts& parts = at->second;
  (adapted.empty() ? parts.weight : name.ends_with(".lora_A.weight") ? parts.a : parts.b) = whole;
  if (!parts.complete()) return;
  const Tensor sum = model::merged(parts.weight.to(at::kFloat), parts.a, parts.b,
                                   lora_.scale(*lora_.adapter_of(at->first)));
  put_(at->first + std::string(kWeight), sum);
  waiting_.erase(at);
}

}  // namespace wmtp::exports
