#include "wmtp/model/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/kernels/gemm.h"
#include "wmtp/model/dropout_mask.h"

namespace wmtp::model {
namespace {

struct Target {
  std::string_view module, name;
  std::int64_t outputs;
};

// Projections that lie in one matrix read one input.
struct Targets {
  Projection* projection;
  std::int64_t inputs;
  bool after_attention;
  std::vector<Target> parts;  // in the order of their outputs
};

std::array<Targets, 4> targets_of(const ModelConfig& c, BlockParams& params) {
  const std::int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim, d = c.dim,
                     f = c.ffn_dim;
  return {{{&params.qkv,
            d,
            false,
            {{"self_attn", "q_proj", q}, {"self_attn", "k_proj", kv}, {"self_attn", "v_proj", kv}}},
           {&params.o, q, true, {{"self_attn", "o_proj", d}}},
           {&params.gate_up, d, true, {{"mlp", "gate_proj", f}, {"mlp", "up_proj", f}}},
           {&params.down, f, true, {{"mlp", "down_proj", d}}}}};
}

// Walks the adapters' part of a unit's buffer and its gradient in step.
class AdapterReader {
 public:
  AdapterReader(const Tensor& trained, const Tensor& grad) : trained_(trained), grad_(grad) {}

  std::pair<Tensor, Tensor> matrix(std::int64_t rows, std::int64_t columns) {
    auto view = [&](const Tensor& flat) {
      return flat.defined() ? flat.narrow(0, at_, rows * columns).view({rows, columns}) : Tensor();
    };
    std::pair<Tensor, Tensor> views{view(trained_), view(grad_)};
    at_ += rows * columns;
    return views;
  }

 private:
  Tensor trained_, grad_;
  std::int64_t at_ = 0;
};

struct Adapted {
  std::string module;
  std::int64_t outputs, first_output, rank;
  double scale;
};

std::vector<Adapted> adapted_parts(const AdapterSource& source, const Targets& targets) {
  std::vector<Adapted> adapted;
  std::int64_t first_output = 0;
  for (const Target& target : targets.parts) {
    const std::string name = fmt::format("{}.{}.{}", source.block, target.module, target.name);
    const auto& wanted = source.lora->targets;
    if (std::ranges::find(wanted, target.name) != wanted.end())
      if (const std::optional<LoraModule> module = source.lora->adapter_of(name))
        adapted.push_back(
            {name, target.outputs, first_output, module->rank, source.lora->scale(*module)});
    first_output += target.outputs;
  }
  return adapted;
}

// Every adapter on its own: with dropout each draws an input of its own.
std::vector<AdapterGroup> with_masks(const AdapterSource& source, const Targets& targets,
                                     const std::vector<Adapted>& adapted,
                                     const AdapterGroup& together) {
  std::vector<AdapterGroup> groups;
  std::int64_t first_rank = 0;
  for (std::size_t i = 0; i < adapted.size(); ++i) {
    const std::int64_t rank = adapted[i].rank;
    auto rows = [&](const Tensor& all_SI) {
      return all_SI.defined() ? all_SI.narrow(0, first_rank, rank) : Tensor();
    };
    groups.push_back({rows(together.a_SI),
                      rows(together.da_SI),
                      draw_mask(*source.dropout, source.lora->dropout, adapted[i].module,
                                targets.after_attention ? source.rows_M : Tensor()),
                      {together.adapters[i]}});
    first_rank += rank;
  }
  return groups;
}

}  // namespace

void attach_adapters(const AdapterSource& source, BlockParams& params) {
  if (!source.buffers.frozen.defined() || !source.buffers.trained.defined()) return;
  AdapterReader reader(source.buffers.trained, source.grad);
  for (const Targets& targets : targets_of(*source.config, params)) {
    const std::vector<Adapted> adapted = adapted_parts(source, targets);
    if (adapted.empty()) continue;
    std::int64_t ranks = 0;
    for (const Adapted& part : adapted) ranks += part.rank;
    AdapterGroup group;
    std::tie(group.a_SI, group.da_SI) = reader.matrix(ranks, targets.inputs);
    for (const Adapted& part : adapted) {
      auto [b_OR, db_OR] = reader.matrix(part.outputs, part.rank);
      group.adapters.push_back({b_OR, db_OR, part.scale, part.first_output});
    }
    if (source.dropout && source.lora->dropout > 0)
      targets.projection->groups = with_masks(source, targets, adapted, group);
    else
      targets.projection->groups = {std::move(group)};
  }
}

Tensor merged(const Tensor& weight_OI, const Tensor& a_RI, const Tensor& b_OR, double scale) {
  const auto dtype = weight_OI.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor sum_OI = weight_OI.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  kernels::linear_backward_input_add(b_OR.to(dtype), a_RI.to(dtype), sum_OI, scale);
  return sum_OI.to(weight_OI.scalar_type());
}

}  // namespace wmtp::model
