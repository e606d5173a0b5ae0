#include "wmtp/run/plan/kernels/cuda_graphs.h"

#include <fmt/format.h>

#include <string>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {
namespace {

// Why no graph can hold it; empty: one can.
std::string why_no_graph(const GraphedRun& run) {
  const training::AssembleOptions& assemble = run.assemble;
  if (!assemble.parallel.device.is_cuda()) return "on a CPU, but graphs are of GPUs only";
  if (run.world > 1 && run.stage != "baseline")
    return fmt::format(
        "in stage {} with {} ranks, but only steps of one rank can be replayed there", run.stage,
        run.world);
  if (run.world > 1)
    return fmt::format(
        "with {} ranks, but a graph holds the compute of one: between its parts "
        "others would have to be waited for",
        run.world);
  if (assemble.parallel.offloads())
    return "with cpu_offload, but a step that the host waits in cannot be replayed";
  if (assemble.parallel.param_dtype == kFloat16 || assemble.loss_scale)
    return "with fp16, but its loss scale changes from step to step";
  if (assemble.transformer.float8 != kernels::Float8Recipe::off)
    return "with float8, but the host decides when weights are scaled anew";
  if (assemble.quantize) return "with a base in NF4, but the host decides what is dequantised when";
  const auto& frozen = assemble.parallel.frozen_dtype;
  const bool reads_frozen = assemble.transformer.lora || assemble.frozen;
  if (reads_frozen && frozen && *frozen != assemble.parallel.param_dtype)
    return fmt::format(
        "with frozen weights in {} and compute in {}, but the host decides when they "
        "are converted",
        name_of(*frozen), name_of(assemble.parallel.param_dtype));
  return "";
}

}  // namespace

bool wants_cuda_graphs(const config::Runtime& runtime) {
  return runtime.cuda_graphs == config::AutoSwitch::on;
}

void check_cuda_graphs(std::string_view key, const GraphedRun& run) {
  if (!run.assemble.step.cuda_graphs) return;
  const std::string fact = why_no_graph(run);
  if (fact.empty()) return;
  throw Error(ErrorKind::config, "model", fmt::format("{} {}", key, fact),
              "leave it out (auto is off), or change the other");
}

void tell_cuda_graphs(const training::StepOptions& step) {
  if (!step.cuda_graphs) return;
  log::info("train",
            "runtime.cuda_graphs has never run on a GPU: replayed steps were held to plain ones by "
            "emulation only");
}

}  // namespace wmtp::run
