#include "wmtp/run/plan/run_flops.h"

#include "wmtp/run/plan/flops.h"

namespace wmtp::run {
namespace {

double policy_flops(const ModelPlan& policy, double span) {
  const training::AssembleOptions& assemble = policy.assemble;
  const model::ModelConfig& shape = assemble.model;
  const bool logits = policy.predicts;
  if (assemble.frozen) return forward_flops_per_token(shape, span, logits);
  if (!assemble.transformer.lora) return 3 * forward_flops_per_token(shape, span, logits);
  const auto adapters =
      static_cast<double>(model::lora_parameters(shape, *assemble.transformer.lora));
  return lora_flops_per_token(shape, span, adapters, logits);
}

}  // namespace

double run_flops_per_token(const ModelPlan& policy, bool reads_frozen, double span) {
  double flops = policy_flops(policy, span);
  if (const auto& head = policy.assemble.value_head)
    flops += 6 * static_cast<double>(
                     model::value_head_unit(head->type, policy.assemble.model.dim).numel());
  if (!policy.frozen || !reads_frozen) return flops;
  const FrozenRequest frozen = policy.frozen->memory_request();
  return flops + forward_flops_per_token(frozen.model, span, frozen.logits);
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
