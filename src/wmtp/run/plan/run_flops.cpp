#include "wmtp/run/plan/run_flops.h"

#include "wmtp/run/plan/flops.h"

namespace wmtp::run {
namespace {

double policy_flops(const MemoryRequest& request, double span) {
  if (request.frozen) return forward_flops_per_token(request.model, span, request.heads);
  if (!request.lora) return 3 * forward_flops_per_token(request.model, span, request.heads);
  const auto adapters = static_cast<double>(model::lora_parameters(request.model, *request.lora));
  return lora_flops_per_token(request.model, span, adapters, request.heads);
}

// What of a run its arithmetic depends on.
MemoryRequest counted_request(const ModelPlan& policy, bool reads_frozen) {
  const training::AssembleOptions& assemble = policy.assemble;
  MemoryRequest request;
  request.model = assemble.model;
  request.lora = assemble.transformer.lora;
  request.frozen = assemble.frozen;
  request.heads = policy.predicts;
  if (assemble.value_head) request.value_head = assemble.value_head->type;
  if (policy.frozen && reads_frozen) request.other = policy.frozen->memory_request();
  return request;
}

}  // namespace

double model_flops_per_token(const MemoryRequest& request, double span) {
  double flops = policy_flops(request, span);
  if (request.value_head)
    flops += 6 * static_cast<double>(
                     model::value_head_unit(*request.value_head, request.model.dim).numel());
  if (!request.other) return flops;
  return flops + forward_flops_per_token(request.other->model, span, request.other->logits);
}

double run_flops_per_token(const ModelPlan& policy, bool reads_frozen, double span) {
  return model_flops_per_token(counted_request(policy, reads_frozen), span);
}

double executed_flops_per_token(const ModelPlan& policy, bool reads_frozen, double span,
                                double targets) {
  const training::AssembleOptions& assemble = policy.assemble;
  const model::ModelConfig& shape = assemble.model;
  double flops = run_flops_per_token(policy, reads_frozen, span);
  if (policy.predicts) {
    const double passes = assemble.frozen ? 1 : assemble.transformer.lora ? 2 : 3;
    const double all = forward_flops_per_token(shape, span) -
                       forward_flops_per_token(shape, span, /*logits=*/false);
    flops -= passes * all * (1 - targets / static_cast<double>(shape.n_future));
  }
  if (!assemble.frozen && assemble.transformer.recompute == model::Recompute::block)
    flops += forward_flops_per_token(shape, span, /*logits=*/false);
  return flops;
}

}  // namespace wmtp::run
