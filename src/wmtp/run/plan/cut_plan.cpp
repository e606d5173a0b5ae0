#include "wmtp/run/plan/cut_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace wmtp::run {
namespace {

// Cuts `config`; `fill` still reads the whole model. Head 1 is the last of model.layers, whose
// number changes with those before it.
void cut_model(model::ModelConfig& config, parallel::ReadParam& fill, std::int64_t most_blocks) {
  const std::int64_t trunk = config.num_trunk_blocks();
  if (trunk <= most_blocks) return;
  const std::int64_t whole_layers = config.num_layers();
  config.num_blocks -= trunk - most_blocks;
  if (config.n_future == 1) return;
  fill = [fill = std::move(fill), cut = fmt::format("model.layers.{}.", config.num_layers() - 1),
          whole = fmt::format("model.layers.{}.", whole_layers - 1)](
             const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    if (!param.name.starts_with(cut)) return fill(param, begin, out);
    layout::ParamSpec head = param;
    head.name = whole + param.name.substr(cut.size());
    fill(head, begin, out);
  };
}

}  // namespace

void cut_blocks(ModelPlan& plan, std::int64_t most_blocks) {
  cut_model(plan.assemble.model, plan.fill, most_blocks);
  if (plan.frozen) cut_model(plan.frozen->source.config, plan.frozen->source.fill, most_blocks);
}

ModelPlan plan_cut_model(const config::Config& config, const RunContext& context,
                         std::optional<std::int64_t> most_blocks) {
  ModelPlan plan = plan_model(config, context);
  if (most_blocks) cut_blocks(plan, *most_blocks);
  return plan;
}

}  // namespace wmtp::run
