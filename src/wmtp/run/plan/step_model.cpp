#include "wmtp/run/plan/step_model.h"

#include "wmtp/model/weight_names.h"
#include "wmtp/run/plan/flops.h"

namespace wmtp::run {

// flops.h counts whole models; one unembedding is what a model without blocks has left.
StepModel step_model(const ShapeTiming& timing, const Sharding& sharding) {
  const model::ModelConfig& shape = timing.model;
  const bool has_heads = shape.n_future > 1;
  const double blocks_s = timing.tokens *
                          forward_flops_per_token(shape, timing.span, /*logits=*/false) /
                          timing.flops_per_s;
  const double block_s = blocks_s / static_cast<double>(shape.num_blocks);
  const double logits_s =
      timing.tokens * forward_flops_per_token(shape, timing.span) / timing.flops_per_s - blocks_s;
  const double loss_s = 3 * logits_s / static_cast<double>(shape.n_future);  // and its backward

  StepModel model;
  model.sharding = sharding;
  double parameters = 0;
  for (const layout::UnitSpec& spec : model::model_units(shape)) {
    const auto numel = static_cast<double>(spec.numel());
    parameters += numel;
    UnitModel unit{.gather_bytes = timing.gather_bytes * numel,
                   .reduce_bytes = timing.reduce_bytes * numel,
                   .kept = spec.kept};
    if (!spec.kept) {
      const auto block = static_cast<std::int64_t>(model.units.size()) - 1;
      unit.head = has_heads && block >= shape.num_trunk_blocks();
      unit.forward_s = block_s + (unit.head ? loss_s : 0);
      unit.backward_s = (timing.recomputes_blocks && !unit.head ? 3 : 2) * block_s;
    }
    model.units.push_back(unit);
  }
  model.loss_s = has_heads ? 0 : loss_s;
  model.update_s = timing.update_s_per_parameter * parameters / sharding.group;
  return model;
}

}  // namespace wmtp::run
