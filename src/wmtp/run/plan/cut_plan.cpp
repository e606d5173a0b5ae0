#include "wmtp/run/plan/cut_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace wmtp::run {
namespace {

// Cuts `config`; `fill` and `stored_nf4` still read the whole model. Head 1 is the last of
// model.layers, whose number changes with those before it.
void cut_model(model::ModelConfig& config, parallel::ReadParam& fill, parallel::ReadNf4& stored_nf4,
               std::int64_t most_blocks) {
  const std::int64_t trunk = config.num_trunk_blocks();
  if (trunk <= most_blocks) return;
  const std::int64_t whole_layers = config.num_layers();
  config.num_blocks -= trunk - most_blocks;
  if (config.n_future == 1) return;
  const auto in_whole =
      [cut = fmt::format("model.layers.{}.", config.num_layers() - 1),
       whole = fmt::format("model.layers.{}.", whole_layers - 1)](layout::ParamSpec param) {
        if (param.name.starts_with(cut)) param.name = whole + param.name.substr(cut.size());
        return param;
      };
  fill = [fill = std::move(fill), in_whole](const layout::ParamSpec& param, std::int64_t begin,
                                            const Tensor& out) {
    fill(in_whole(param), begin, out);
  };
  if (stored_nf4)
    stored_nf4 = [stored_nf4 = std::move(stored_nf4), in_whole](
                     const layout::ParamSpec& param, std::int64_t begin, std::int64_t count) {
      return stored_nf4(in_whole(param), begin, count);
    };
}

}  // namespace

void cut_blocks(ModelPlan& plan, std::int64_t most_blocks) {
  cut_model(plan.assemble.model, plan.fill, plan.stored_nf4, most_blocks);
  if (!plan.frozen) return;
  models::ModelSource& frozen = plan.frozen->source;
  cut_model(frozen.config, frozen.fill, frozen.stored_nf4, most_blocks);
}

ModelPlan plan_cut_model(const config::Config& config, const RunContext& context,
                         std::optional<std::int64_t> most_blocks) {
  ModelPlan plan = plan_model(config, context);
  if (most_blocks) cut_blocks(plan, *most_blocks);
  return plan;
}

}  // namespace wmtp::run
