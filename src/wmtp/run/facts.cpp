#include "wmtp/run/facts.h"

#include "wmtp/run/plan/flops.h"
#include "wmtp/run/plan/run_flops.h"
#include "wmtp/run/report/run_memory.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::run {

RunFacts run_facts(const config::Config& config, const RunContext& context, const ModelPlan& plan,
                   bool reads_frozen) {
  RunFacts facts;
  facts.world = context.world;
  facts.model_flops = [&plan, reads_frozen](double span) {
    return run_flops_per_token(plan, reads_frozen, span);
  };
  facts.executed_flops = [&plan, reads_frozen](double span, double targets) {
    return executed_flops_per_token(plan, reads_frozen, span, targets);
  };
  if (config.runtime.peak_tflops)
    facts.peak_flops = *config.runtime.peak_tflops * 1e12;
  else if (context.device.is_cuda())
    facts.peak_flops =
        known_peak_flops(cuda_tables().services.device_info(context.device.index()).name);
  facts.memory_limit_gib = static_cast<double>(context.memory_bytes) / (1 << 30);
  facts.memory_used_gib = [device = context.device] { return peak_memory_gib(device); };
  return facts;
}

}  // namespace wmtp::run
