#include "wmtp/run/plan/block_memory.h"

#include <algorithm>

#include "wmtp/kernels/linear_cross_entropy.h"
#include "wmtp/kernels/packed/documents.h"

namespace wmtp::run {
namespace {

// Widths of a token's intermediates, in elements.
struct Widths {
  explicit Widths(const model::ModelConfig& m)
      : d(m.dim),
        q(m.num_heads * m.head_dim),
        qkv(q + 2 * m.num_kv_heads * m.head_dim),
        f(m.ffn_dim),
        heads(m.num_heads),
        is_grouped(m.num_heads != m.num_kv_heads) {}
  std::int64_t d, q, qkv, f, heads;
  bool is_grouped;
};

std::int64_t bytes_of(DType dtype) {
  return static_cast<std::int64_t>(element_bytes(dtype));
}

bool adapts(const WorkShape& shape, std::initializer_list<std::string_view> names) {
  if (!shape.lora || shape.lora->dropout <= 0) return false;
  return std::ranges::any_of(names, [&](std::string_view name) {
    return std::ranges::find(shape.lora->targets, name) != shape.lora->targets.end();
  });
}

// What products in float8 have in bytes beside their operands. Those of dy, in both orders where W
// learns; then either x, where it was not kept in bytes, or W turned.
struct Float8Work {
  explicit Float8Work(const WorkShape& shape)
      : on(shape.float8 != kernels::Float8Recipe::off),
        learns(on && !shape.reads.by_adapters),
        light(shape.recompute == model::Recompute::light),
        makes_weights(on && (shape.float8 == kernels::Float8Recipe::rowwise || !learns)),
        tokens(shape.tokens) {}

  // `kept`: x is there in bytes.
  std::int64_t backward(std::int64_t inputs, std::int64_t outputs, bool kept) const {
    if (!on) return 0;
    const std::int64_t gradients = tokens * outputs * (learns ? 2 : 1);
    return gradients + std::max(learns && !kept ? tokens * inputs : 0, inputs * outputs);
  }
  // x in the order of the forward, and W where it does not come in bytes.
  std::int64_t forward(std::int64_t inputs, std::int64_t outputs) const {
    return on ? tokens * inputs + (makes_weights ? inputs * outputs : 0) : 0;
  }

  bool on, learns, light, makes_weights;
  std::int64_t tokens;
};

// The feed-forward's backward: the gradient of the product beside everything kept, then also that
// of its input, in the place of the product where that was kept; adapters with dropout draw their
// input again and have its gradient. `light` has not yet recomputed what the attention's backward
// reads.
std::int64_t feed_forward_backward(const WorkShape& shape, const Widths& w) {
  const std::int64_t c = bytes_of(shape.dtype);
  const Float8Work float8(shape);
  const bool light = float8.light;
  const std::int64_t kept =
      activation_bytes(shape.model, light ? model::Recompute::light : model::Recompute::none, c,
                       shape.reads, float8.on);
  const std::int64_t input = light && shape.reads.gate_up ? c * w.d : 0;
  const std::int64_t product = shape.reads.down ? (float8.learns && !light ? 1 : c) * w.f : 0;
  const std::int64_t at_down = kept + input + (light ? product : 0) + c * w.f;
  const std::int64_t at_gate_up = kept + input - (light ? 0 : product) + c * (w.f + w.d);
  const std::int64_t dropped = adapts(shape, {"down_proj"}) ? 2 * c * w.f : 0;
  return std::max(shape.tokens * at_down + float8.backward(w.f, w.d, !light),
                  shape.tokens * at_gate_up + float8.backward(w.d, 2 * w.f, !light)) +
         shape.tokens * dropped;
}

// What the attention's kernel works in. cuDNN's for documents has sums over keys and rows, and the
// gradients of grouped key/value heads for every query head, all in fp32, for a number of tokens
// that is rounded up to a power of two. What it stores besides to be reproducible is not of tokens,
// and is counted apart.
std::int64_t attention_workspace(const WorkShape& shape, const Widths& w) {
  const std::int64_t c = bytes_of(shape.dtype);
  if (!shape.on_gpu) return c * w.qkv;
  if (!shape.packed_cudnn) return 4 * w.q + (w.is_grouped ? 2 * c * w.q : 0);
  const std::int64_t tokens = std::max<std::int64_t>(shape.tokens, 1);
  const std::int64_t rounded = kernels::packed_bucket(1, tokens, tokens).tokens;
  return rounded * 4 * (w.heads + (w.is_grouped ? 3 : 1) * w.q) / tokens;
}

// The attention's backward when the feed-forward's part is gone. The kernel returns gradients of q,
// k and v; they are copied (CPU), or summed in fp32 and for every query head (GPU), and then lie
// beside the gradient of the fused projection and of its input.
std::int64_t attention_backward(const WorkShape& shape, const Widths& w) {
  const std::int64_t c = bytes_of(shape.dtype);
  const Float8Work float8(shape);
  const std::int64_t all = activation_bytes(
      shape.model, model::Recompute::none, c,
      {shape.reads.qkv, false, false, shape.reads.by_adapters}, float8.on && !float8.light);
  const std::int64_t kept = all - 2 * c * w.f + c * w.q;  // with the output's gradient
  const std::int64_t inner = attention_workspace(shape, w);
  const std::int64_t dropped = adapts(shape, {"q_proj", "k_proj", "v_proj"}) ? 2 * c * w.d : 0;
  const std::int64_t at_output = shape.tokens * kept + float8.backward(w.q, w.d, false);
  const std::int64_t at_kernel =
      shape.tokens * (kept + c * w.qkv + inner) + shape.stored_score_bytes;
  const std::int64_t at_input = shape.tokens * (kept + c * (2 * w.qkv + w.d) + dropped) +
                                float8.backward(w.d, w.qkv, !float8.light);
  return std::max({at_output, at_kernel, at_input});
}

// Every intermediate and the output. Where inputs are kept in bytes, the last one is there in both.
std::int64_t block_forward(const WorkShape& shape, const Widths& w) {
  const std::int64_t c = bytes_of(shape.dtype);
  const Float8Work float8(shape);
  const bool in_bytes = float8.learns && shape.recompute == model::Recompute::none;
  const std::int64_t all =
      activation_bytes(shape.model, model::Recompute::none, c, kAllInputs, in_bytes);
  return shape.tokens * (all + (in_bytes ? c * w.f : 0) + c * w.d) + float8.forward(w.f, w.d);
}

}  // namespace

ReadInputs read_inputs(const layout::UnitSpec& block) {
  ReadInputs reads;
  for (const layout::ParamSpec& param : block.params) {
    if (!param.trained) continue;
    const auto is_of = [&](std::string_view projection) {
      return param.name.find(projection) != param.name.npos;
    };
    reads.qkv |= is_of(".q_proj.") || is_of(".k_proj.") || is_of(".v_proj.");
    reads.gate_up |= is_of(".gate_proj.") || is_of(".up_proj.");
    reads.down |= is_of(".down_proj.");
    reads.by_adapters |= is_of(".lora_");
  }
  return reads;
}

std::int64_t activation_bytes(const model::ModelConfig& m, model::Recompute level, std::int64_t c,
                              const ReadInputs& reads, bool float8) {
  if (level == model::Recompute::block) return c * m.dim;
  const Widths w(m);
  const std::int64_t bytes = c * (2 * w.d + w.q + w.qkv + 2 * w.f) + 4 * m.num_heads + 8;
  if (level == model::Recompute::light) return bytes;
  const std::int64_t normed =  // q and k, and their deviations
      m.qk_norm ? (c * m.head_dim + 4) * (m.num_heads + m.num_kv_heads) : 0;
  const std::int64_t inputs =
      (reads.qkv ? w.d : 0) + (reads.gate_up ? w.d : 0) + (reads.down ? w.f : 0);
  return bytes + normed + (float8 && !reads.by_adapters ? 1 : c) * inputs;
}

BlockMemory block_memory(const WorkShape& shape) {
  const Widths w(shape.model);
  const std::int64_t c = bytes_of(shape.dtype);
  const std::int64_t feed_forward = feed_forward_backward(shape, w);
  const std::int64_t attention = attention_backward(shape, w);
  BlockMemory memory;
  memory.hidden = shape.tokens * c * w.d;
  memory.kept = shape.tokens * activation_bytes(shape.model, shape.recompute, c, shape.reads,
                                                shape.float8 != kernels::Float8Recipe::off);
  memory.forward = block_forward(shape, w);
  memory.backward = std::max(feed_forward, attention);
  // A head spreads the gradients of its rows over all tokens before the attention's backward.
  memory.head_backward =
      std::max(feed_forward, attention + shape.tokens * c * (w.q + w.d)) - memory.hidden;
  return memory;
}

std::int64_t loss_chunk_bytes(const WorkShape& shape, bool gradient) {
  const std::int64_t c = bytes_of(shape.dtype), vocab = shape.model.vocab_size;
  const std::int64_t rows = kernels::loss_chunk_rows({.rows = shape.tokens,
                                                      .row_bytes = vocab * c,
                                                      .wanted = shape.loss_chunk_rows,
                                                      .on_gpu = shape.on_gpu});
  return rows * c * (vocab + (gradient ? shape.model.dim : 0));
}

std::int64_t value_head_bytes(const WorkShape& shape, model::ValueHeadType type, bool learns) {
  const std::int64_t c = bytes_of(shape.dtype), d = shape.model.dim;
  const bool is_fp32 = shape.dtype == kFloat32;
  const std::int64_t layers = type == model::ValueHeadType::mlp ? 2 * 4 * (d / 4 + d / 8) : 0;
  std::int64_t bytes = c * d + (is_fp32 ? 0 : 4 * d) + layers;
  if (learns) bytes += 4 * d + (is_fp32 ? 0 : c * d);
  return shape.tokens * bytes;
}

}  // namespace wmtp::run
