#include "wmtp/run/plan/block_memory.h"

#include <algorithm>
#include <bit>

#include "wmtp/kernels/linear_cross_entropy.h"

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

// The feed-forward's backward, per token: the gradient of the product beside everything kept, then
// also that of its input, in the place of the product where that was kept; adapters with dropout
// draw their input again and have its gradient. `light` has not yet recomputed what the attention's
// backward reads.
std::int64_t feed_forward_backward(const WorkShape& shape, const Widths& w) {
  const std::int64_t c = bytes_of(shape.dtype);
  const bool light = shape.recompute == model::Recompute::light;
  const std::int64_t kept = activation_bytes(
      shape.model, light ? model::Recompute::light : model::Recompute::none, c, shape.reads);
  const std::int64_t recomputed =
      light ? (shape.reads.gate_up ? w.d : 0) + (shape.reads.down ? w.f : 0) : 0;
  const std::int64_t gradients = shape.reads.down ? std::max(w.d, w.f) : w.d + w.f;
  return kept + c * (recomputed + gradients) + (adapts(shape, {"down_proj"}) ? 2 * c * w.f : 0);
}

// What the attention's kernel works in. cuDNN's for documents has sums over keys and rows, and the
// gradients of grouped key/value heads for every query head, all in fp32, for a number of tokens
// that is rounded up to a power of two. What it stores besides to be reproducible, up to 1 GiB, is
// not counted.
std::int64_t attention_workspace(const WorkShape& shape, const Widths& w) {
  const std::int64_t c = bytes_of(shape.dtype);
  if (!shape.on_gpu) return c * w.qkv;
  if (!shape.packed_cudnn) return 4 * w.q + (w.is_grouped ? 2 * c * w.q : 0);
  const auto tokens = static_cast<std::uint64_t>(std::max<std::int64_t>(shape.tokens, 1));
  const auto rounded = static_cast<std::int64_t>(std::bit_ceil(tokens));
  return rounded * 4 * (w.heads + (w.is_grouped ? 3 : 1) * w.q) / static_cast<std::int64_t>(tokens);
}

// The attention's backward, per token, when the feed-forward's part is gone. The kernel returns
// gradients of q, k and v; they are copied (CPU), or summed in fp32 and for every query head (GPU),
// and then lie beside the gradient of the fused projection and of its input.
std::int64_t attention_backward(const WorkShape& shape, const Widths& w) {
  const std::int64_t c = bytes_of(shape.dtype);
  const std::int64_t all =
      activation_bytes(shape.model, model::Recompute::none, c, {shape.reads.qkv, false, false});
  const std::int64_t kept = all - 2 * c * w.f + c * w.q;  // with the output's gradient
  const std::int64_t inner = attention_workspace(shape, w);
  const std::int64_t dropped = adapts(shape, {"q_proj", "k_proj", "v_proj"}) ? 2 * c * w.d : 0;
  return kept + c * w.qkv + std::max(inner, c * (w.qkv + w.d) + dropped);
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
  }
  return reads;
}

std::int64_t activation_bytes(const model::ModelConfig& m, model::Recompute level, std::int64_t c,
                              const ReadInputs& reads) {
  if (level == model::Recompute::block) return c * m.dim;
  const Widths w(m);
  const std::int64_t bytes = c * (2 * w.d + w.q + w.qkv + 2 * w.f) + 4 * m.num_heads + 8;
  if (level == model::Recompute::light) return bytes;
  const std::int64_t normed =  // q and k, and their deviations
      m.qk_norm ? (c * m.head_dim + 4) * (m.num_heads + m.num_kv_heads) : 0;
  const std::int64_t inputs =
      (reads.qkv ? w.d : 0) + (reads.gate_up ? w.d : 0) + (reads.down ? w.f : 0);
  return bytes + normed + c * inputs;
}

BlockMemory block_memory(const WorkShape& shape) {
  const Widths w(shape.model);
  const std::int64_t c = bytes_of(shape.dtype);
  const std::int64_t feed_forward = feed_forward_backward(shape, w);
  const std::int64_t attention = attention_backward(shape, w);
  BlockMemory memory;
  memory.hidden = shape.tokens * c * w.d;
  memory.kept = shape.tokens * activation_bytes(shape.model, shape.recompute, c, shape.reads);
  memory.forward =
      shape.tokens * activation_bytes(shape.model, model::Recompute::none, c) + memory.hidden;
  memory.backward = shape.tokens * std::max(feed_forward, attention);
  // A head spreads the gradients of its rows over all tokens before the attention's backward.
  memory.head_backward =
      shape.tokens * (std::max(feed_forward, attention + c * (w.q + w.d)) - c * w.d);
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
