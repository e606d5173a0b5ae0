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
  Projection* projection;
  std::int64_t inputs, outputs, first_output;
  bool after_attention;
};

std::array<Target, 7> targets_of(const ModelConfig& c, BlockParams& params) {
  const std::int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim, d = c.dim,
                     f = c.ffn_dim;
  return {{{"self_attn", "q_proj", &params.qkv, d, q, 0, false},
           {"self_attn", "k_proj", &params.qkv, d, kv, q, false},
           {"self_attn", "v_proj", &params.qkv, d, kv, q + kv, false},
           {"self_attn", "o_proj", &params.o, q, d, 0, true},
           {"mlp", "gate_proj", &params.gate_up, d, f, 0, true},
           {"mlp", "up_proj", &params.gate_up, d, f, f, true},
           {"mlp", "down_proj", &params.down, f, d, 0, true}}};
}

std::string module_of(const AdapterSource& source, const Target& target) {
  return fmt::format("{}.{}.{}", source.block, target.module, target.name);
}

kernels::DropoutMask mask_of(const AdapterSource& source, const Target& target) {
  return draw_mask(*source.dropout, source.lora->dropout, module_of(source, target),
                   target.after_attention ? source.rows_M : Tensor());
}

}  // namespace

void attach_adapters(const AdapterSource& source, BlockParams& params) {
  if (!source.buffers.frozen.defined() || !source.buffers.trained.defined()) return;
  std::int64_t at = 0;
  auto take = [&](std::int64_t rows, std::int64_t columns) {
    auto view = [&](const Tensor& flat) {
      return flat.defined() ? flat.narrow(0, at, rows * columns).view({rows, columns}) : Tensor();
    };
    std::pair<Tensor, Tensor> views{view(source.buffers.trained), view(source.grad)};
    at += rows * columns;
    return views;
  };
  for (const Target& target : targets_of(*source.config, params)) {
    if (std::ranges::find(source.lora->targets, target.name) == source.lora->targets.end())
      continue;
    const std::optional<LoraModule> module = source.lora->adapter_of(module_of(source, target));
    if (!module) continue;
    Adapter adapter;
    std::tie(adapter.a_RI, adapter.da_RI) = take(module->rank, target.inputs);
    std::tie(adapter.b_OR, adapter.db_OR) = take(target.outputs, module->rank);
    adapter.scale = source.lora->scale(*module);
    adapter.first_output = target.first_output;
    if (source.dropout && source.lora->dropout > 0) adapter.mask = mask_of(source, target);
    target.projection->adapters.push_back(std::move(adapter));
  }
}

Tensor merged(const Tensor& weight_OI, const Tensor& a_RI, const Tensor& b_OR, double scale) {
  const auto dtype = weight_OI.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor sum_OI = weight_OI.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  kernels::linear_backward_input_add(b_OR.to(dtype), a_RI.to(dtype), sum_OI, scale);
  return sum_OI.to(weight_OI.scalar_type());
}

}  // namespace wmtp::model
