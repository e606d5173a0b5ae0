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

// Ranks of the products with A: one for all of an input, but for dropout, which gives each adapter
// an input of its own.
std::vector<double> input_products(const BlockWork& work, const AdapterWork& adapters) {
  std::vector<double> ranks;
  double together = 0;
  for (const AdapterWork::Part& part : adapters.parts) {
    together += part.rank;
    if (work.drops_out) ranks.push_back(part.rank);
  }
  return work.drops_out ? ranks : std::vector{together};
}

void adapters_forward(const BlockWork& work, OperationCosts& costs) {
  for (const AdapterWork& adapters : work.adapters) {
    const double rows = adapters.on_rows ? work.rows : work.tokens;
    for (const double rank : input_products(work, adapters)) {
      if (work.drops_out) costs.elements(Pass::copy, 2 * rows * adapters.inputs);
      costs.product(rows, rank, adapters.inputs);
    }
    for (const auto& [outputs, rank] : adapters.parts) costs.product(rows, outputs, rank);
  }
}

void adapters_backward(const BlockWork& work, OperationCosts& costs) {
  for (const AdapterWork& adapters : work.adapters) {
    const double rows = adapters.on_rows ? work.rows : work.tokens;
    for (const double rank : input_products(work, adapters)) {
      if (work.drops_out) costs.elements(Pass::copy, 7 * rows * adapters.inputs);
      costs.product(rows, rank, adapters.inputs);
      costs.product(rank, adapters.inputs, rows);
      costs.product(rows, adapters.inputs, rank);
    }
    for (const auto& [outputs, rank] : adapters.parts) {
      costs.product(rows, rank, outputs);
      costs.product(outputs, rank, rows);
    }
  }
}

// A matrix and what float8 has to ask of its products' operands, x and dy.
struct Projected {
  double rows, outputs, inputs;
  // Tensorwise: the kernels that make them find the largest magnitude, too.
  bool measures_x = true, measures_dy = true;
  bool keeps_x = true;  // in bytes, where inputs are kept

  double weights() const { return outputs * inputs; }
};

struct Projections {
  Projected qkv, o, gate_up, down;
  explicit Projections(const BlockWork& work) : Projections(work, BlockWidths(work.model)) {}

 private:
  Projections(const BlockWork& work, const BlockWidths& w)
      : qkv{work.tokens, w.q + 2 * w.kv, w.d},
        o{work.rows, w.d, w.q, /*measures_x=*/false, /*measures_dy=*/false, /*keeps_x=*/false},
        gate_up{work.rows, 2 * w.f, w.d},
        down{work.rows, w.d, w.f, /*measures_x=*/true, /*measures_dy=*/false} {}
};

// An operand is read for its scales unless those are known, then read and written in bytes, once
// for each order. The rates are those of other passes.
void quantise(const BlockWork& work, double elements, bool measured, int orders,
              OperationCosts& costs) {
  if (!measured || work.float8 == kernels::Float8Recipe::rowwise)
    costs.elements(Pass::grad_norm, elements);
  costs.pass(Pass::copy, elements * (costs.element_bytes() + orders));
}

void project(const BlockWork& work, const Projected& m, bool keeps, OperationCosts& costs) {
  if (work.float8 == kernels::Float8Recipe::off) return costs.product(m.rows, m.outputs, m.inputs);
  const int orders = keeps && m.keeps_x && work.learns ? 2 : 1;
  quantise(work, m.rows * m.inputs, m.measures_x, orders, costs);
  if (!work.weights_in_bytes) quantise(work, m.weights(), /*measured=*/false, 1, costs);
  costs.float8_product(m.rows, m.outputs, m.inputs);
}

// `kept`: x is there, in bytes where it was kept so.
void project_backward(const BlockWork& work, const Projected& m, bool kept, OperationCosts& costs) {
  if (work.float8 == kernels::Float8Recipe::off) {
    if (work.learns) costs.product(m.outputs, m.inputs, m.rows);
    return costs.product(m.rows, m.inputs, m.outputs);
  }
  quantise(work, m.rows * m.outputs, m.measures_dy, work.learns ? 2 : 1, costs);
  if (work.learns) {
    if (!kept || !m.keeps_x) quantise(work, m.rows * m.inputs, m.measures_x, 1, costs);
    costs.float8_product(m.outputs, m.inputs, m.rows);
  }
  if (work.weights_in_bytes)
    costs.pass(Pass::copy, 2 * m.weights());  // turned
  else
    quantise(work, m.weights(), /*measured=*/false, 1, costs);
  costs.float8_product(m.rows, m.inputs, m.outputs);
}

}  // namespace

void set_learning(const layout::UnitSpec& unit, BlockWork& work) {
  constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kMatrix = "_proj.weight";
  work.reads = read_inputs(unit);
  bool in_group = false;  // of A that read one input: behind them lie the B of the same adapters
  for (const layout::ParamSpec& param : unit.params) {
    if (param.name.ends_with(kMatrix) && param.trained) work.learns = true;
    if (param.float8_matrix != 0) work.weights_in_bytes = true;
    const bool is_a = param.name.ends_with(kA);
    if (param.name.ends_with(kB))
      work.adapters.back().parts.push_back({.outputs = static_cast<double>(param.shape[0]),
                                            .rank = static_cast<double>(param.shape[1])});
    if (is_a && !in_group)
      work.adapters.push_back({.inputs = static_cast<double>(param.shape[1]),
                               .on_rows = param.name.find("mlp.") != param.name.npos ||
                                          param.name.find("o_proj") != param.name.npos});
    in_group = is_a;
  }
}

void block_forward(const BlockWork& work, bool keeps, OperationCosts& costs) {
  const BlockWidths w(work.model);
  const Projections matrices(work);
  const double n = work.tokens, m = work.rows;
  costs.elements(Pass::norm, 4 * n * w.d);
  project(work, matrices.qkv, keeps, costs);
  costs.elements(work.model.qk_norm ? Pass::qk_rope : Pass::rope, 2 * n * (w.q + w.kv));
  costs.attention_forward(n, work.span, w.q);
  if (m < n) costs.elements(Pass::copy, 2 * m * (w.q + w.d));
  project(work, matrices.o, keeps, costs);
  costs.elements(Pass::norm, 4 * m * w.d);
  project(work, matrices.gate_up, keeps, costs);
  costs.elements(Pass::swiglu, 3 * m * w.f);
  project(work, matrices.down, keeps, costs);
  adapters_forward(work, costs);
}

void block_backward(const BlockWork& work, model::Recompute level, OperationCosts& costs) {
  const BlockWidths w(work.model);
  const Projections matrices(work);
  const double n = work.tokens, m = work.rows;
  const bool kept = level != model::Recompute::light;
  if (level == model::Recompute::block) block_forward(work, /*keeps=*/true, costs);
  if (level == model::Recompute::light) {
    if (work.reads.qkv) costs.elements(Pass::norm, 2 * n * w.d);
    if (work.model.qk_norm) costs.elements(Pass::qk_rope, 2 * n * (w.q + w.kv));
    if (work.reads.gate_up) costs.elements(Pass::norm, 2 * m * w.d);
    if (work.reads.down) costs.elements(Pass::swiglu, 3 * m * w.f);
  }
  project_backward(work, matrices.down, kept, costs);
  costs.elements(Pass::swiglu_backward, 5 * m * w.f);
  project_backward(work, matrices.gate_up, kept, costs);
  costs.elements(Pass::norm_backward, 4 * m * w.d);
  project_backward(work, matrices.o, kept, costs);
  if (m < n) costs.elements(Pass::copy, (n + 2 * m) * (w.q + w.d));
  costs.attention_backward(n, work.span, w.q);
  const bool norm = work.model.qk_norm;
  costs.elements(norm ? Pass::qk_rope_backward : Pass::rope_backward,
                 2 * n * (w.q + 2 * w.kv) + (norm ? n * (w.q + w.kv) : 0));
  project_backward(work, matrices.qkv, kept, costs);
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
