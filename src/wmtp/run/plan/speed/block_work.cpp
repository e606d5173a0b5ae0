#include "wmtp/run/plan/speed/block_work.h"

#include <algorithm>
#include <cmath>

namespace wmtp::run {
namespace {

constexpr double kCpuLogitsBytes = 0x1p26, kGpuLogitsBytes = 0x1p29;  // of a chunk

struct BlockWidths {
  double d, q, kv, f;
  explicit BlockWidths(const model::ModelConfig& m)
      : d(static_cast<double>(m.dim)),
        q(static_cast<double>(m.num_heads * m.head_dim)),
        kv(static_cast<double>(m.num_kv_heads * m.head_dim)),
        f(static_cast<double>(m.ffn_dim)) {}
};

void adapters_forward(const BlockWork& work, OperationCosts& costs) {
  for (const AdapterWork& adapter : work.adapters) {
    const double rows = adapter.on_rows ? work.rows : work.tokens;
    if (work.drops_out) costs.elements(Pass::copy, 2 * rows * adapter.inputs);
    costs.product(rows, adapter.rank, adapter.inputs);
    costs.product(rows, adapter.outputs, adapter.rank);
  }
}

void adapters_backward(const BlockWork& work, OperationCosts& costs) {
  for (const AdapterWork& adapter : work.adapters) {
    const double rows = adapter.on_rows ? work.rows : work.tokens;
    if (work.drops_out) costs.elements(Pass::copy, 7 * rows * adapter.inputs);
    costs.product(rows, adapter.rank, adapter.outputs);
    costs.product(rows, adapter.rank, adapter.inputs);
    costs.product(adapter.outputs, adapter.rank, rows);
    costs.product(adapter.rank, adapter.inputs, rows);
    costs.product(rows, adapter.inputs, adapter.rank);
  }
}

void projection_backward(const BlockWork& work, double rows, double outputs, double inputs,
                         OperationCosts& costs) {
  if (work.learns) costs.product(outputs, inputs, rows);
  costs.product(rows, inputs, outputs);
}

}  // namespace

void set_learning(const layout::UnitSpec& unit, BlockWork& work) {
  constexpr std::string_view kA = ".lora_A.weight", kMatrix = "_proj.weight";
  for (std::size_t p = 0; p < unit.params.size(); ++p) {
    const layout::ParamSpec& param = unit.params[p];
    if (param.name.ends_with(kMatrix) && param.trained) work.learns = true;
    if (!param.name.ends_with(kA)) continue;
    const bool on_rows =
        param.name.find("mlp.") != param.name.npos || param.name.find("o_proj") != param.name.npos;
    work.adapters.push_back({.inputs = static_cast<double>(param.shape[1]),
                             .outputs = static_cast<double>(unit.params.at(p + 1).shape[0]),
                             .rank = static_cast<double>(param.shape[0]),
                             .on_rows = on_rows});
  }
}

void block_forward(const BlockWork& work, OperationCosts& costs) {
  const BlockWidths w(work.model);
  const double n = work.tokens, m = work.rows;
  costs.elements(Pass::norm, 4 * n * w.d);
  costs.product(n, w.q + 2 * w.kv, w.d);
  costs.elements(work.model.qk_norm ? Pass::qk_rope : Pass::rope, 2 * n * (w.q + w.kv));
  costs.attention_forward(n, work.span, w.q);
  if (m < n) costs.elements(Pass::copy, 2 * m * (w.q + w.d));
  costs.product(m, w.d, w.q);
  costs.elements(Pass::norm, 4 * m * w.d);
  costs.product(m, 2 * w.f, w.d);
  costs.elements(Pass::swiglu, 3 * m * w.f);
  costs.product(m, w.d, w.f);
  adapters_forward(work, costs);
}

void block_backward(const BlockWork& work, model::Recompute level, OperationCosts& costs) {
  const BlockWidths w(work.model);
  const double n = work.tokens, m = work.rows;
  if (level == model::Recompute::block) block_forward(work, costs);
  if (level == model::Recompute::light) {
    costs.elements(Pass::norm, 2 * n * w.d);
    costs.elements(Pass::norm, 2 * m * w.d);
    costs.elements(Pass::swiglu, 3 * m * w.f);
  }
  projection_backward(work, m, w.d, w.f, costs);
  costs.elements(Pass::swiglu_backward, 5 * m * w.f);
  projection_backward(work, m, 2 * w.f, w.d, costs);
  costs.elements(Pass::norm_backward, 4 * m * w.d);
  projection_backward(work, m, w.d, w.q, costs);
  if (m < n) costs.elements(Pass::copy, (n + 2 * m) * (w.q + w.d));
  costs.attention_backward(n, work.span, w.q);
  const bool norm = work.model.qk_norm;
  costs.elements(norm ? Pass::qk_rope_backward : Pass::rope_backward,
                 2 * n * (w.q + 2 * w.kv) + (norm ? n * (w.q + w.kv) : 0));
  projection_backward(work, n, w.q + 2 * w.kv, w.d, costs);
  costs.elements(Pass::norm_backward, 4 * n * w.d);
  adapters_backward(work, costs);
}

void loss(const LossWork& work, OperationCosts& costs) {
  if (work.rows <= 0) return;
  const double chunk_bytes = costs.device().is_cpu() ? kCpuLogitsBytes : kGpuLogitsBytes;
  const double most = std::max(1.0, chunk_bytes / (work.vocabulary * costs.element_bytes()));
  const double chunks = std::ceil(work.rows / most), rows = work.rows / chunks;
  for (double chunk = 0; chunk < chunks; ++chunk) {
    costs.elements(Pass::copy, work.backward ? 2 * rows * work.width : 0);
    costs.product(rows, work.vocabulary, work.width);
    costs.elements(Pass::cross_entropy, (work.backward ? 2 : 1) * rows * work.vocabulary);
    if (!work.backward) continue;
    costs.product(rows, work.width, work.vocabulary);
    if (work.learns) costs.product(work.vocabulary, work.width, rows);
  }
}

}  // namespace wmtp::run
