#include "wmtp/run/facts.h"

#include <map>

#include "wmtp/run/plan/run_flops.h"
#include "wmtp/run/plan/speed/device_model.h"
#include "wmtp/run/report/run_memory.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::run {
namespace {

// Asks the parameters, not the configuration: only groups that have one that learns count.
LearningRates learning_rates(const training::AssembleOptions& assemble) {
  const optim::ParamGroups& groups = assemble.groups;
  std::map<std::string, double> trained;
  for (const layout::UnitSpec& unit : training::trainable_units(assemble))
    for (const layout::ParamSpec& param : unit.params)
      if (param.trained) {
        const optim::GroupSettings& group = groups.groups[groups.group_of(param)];
        trained.emplace(group.name, group.learning_rate);
      }
  const auto rate = [&](const char* name) {
    const auto found = trained.find(name);
    return found == trained.end() ? std::nullopt : std::optional(found->second);
  };
  LearningRates rates{.main = 0, .lora = rate("lora"), .value_head = rate("value_head")};
  const std::optional<double> whole = rate("policy");
  rates.main = whole ? *whole : rates.lora ? *rates.lora : rates.value_head.value_or(0);
  return rates;
}

}  // namespace

RunFacts run_facts(const config::Config& config, const RunContext& context, const ModelPlan& plan,
                   bool reads_frozen) {
  RunFacts facts;
  facts.world = context.world;
  facts.rates = learning_rates(plan.assemble);
  facts.model_flops = [&plan, reads_frozen](double span) {
    return run_flops_per_token(plan, reads_frozen, span);
  };
  facts.executed_flops = [&plan, reads_frozen](double span, double targets) {
    return executed_flops_per_token(plan, reads_frozen, span, targets);
  };
  if (config.runtime.peak_tflops)
    facts.peak_flops = *config.runtime.peak_tflops * 1e12;
  else if (context.device.is_cuda())
    if (const DeviceModel* known =
            find_device(cuda_tables().services.device_info(context.device.index()).name))
      facts.peak_flops = known->peak_flops;
  facts.memory_limit_gib = static_cast<double>(context.memory_bytes) / (1 << 30);
  facts.memory_used_gib = [device = context.device] { return peak_memory_gib(device); };
  return facts;
}

}  // namespace wmtp::run
