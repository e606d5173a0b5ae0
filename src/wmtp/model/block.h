// The one transformer block, forward and backward written out (models differ in sizes, RoPE and q/k
// norm only):
//   a = RMSNorm(x);  q, k, v = a W^T, (normalised and) rotated;  o = causal attention
//   x' = x + o Wo^T;  m = RMSNorm(x');  y = x' + (silu(m Wgate^T) * m Wup^T) Wdown^T
// What is kept for the backward is decided here, by the recompute level.
// N tokens, M of them needed after the attention, D hidden, C = (h + 2g) e, F FFN width.
#pragma once
#include <cstdint>

#include "wmtp/kernels/attention.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/model/projection.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

// none: keep all that the backward reads; light: recompute norms, what a q/k norm is followed by,
// and SwiGLU, never a GEMM; block: keep the block's input only. None of them keeps or recomputes
// what only the gradient of a frozen matrix would read.
enum class Recompute { none, light, block };

struct BlockShape {
  kernels::HeadShape heads;
  double norm_eps = 1e-5;
  bool qk_norm = false;
};

// A vector parameter and where its gradient goes.
struct NormWeight {
  Tensor weight;
  Tensor dweight;  // undefined: frozen, or no backward pass
};

struct BlockParams {
  Projection qkv, o, gate_up, down;
  NormWeight input_norm, post_norm, q_norm, k_norm;
};

// The residual stream between blocks: its value is base + pending. The sum is formed by the norm
// that reads it.
struct ResidualStream {
  Tensor base_ND;
  Tensor pending_ND;  // undefined: nothing pending
};

// What all blocks of a micro-batch share. BORROWS.
struct BlockContext {
  const kernels::Documents* documents = nullptr;
  const kernels::RopeTable* rope = nullptr;
  kernels::AttentionOptions attention;
};

struct BlockActivations {
  Tensor x_ND;    // input of the block (always kept)
  Tensor rows_M;  // rows needed after the attention; undefined: all
  Tensor rstd_in_N, a_ND;
  Tensor qkv_NC, qk_NC, qk_rstd;  // qk: normalised and rotated q and k, where there is a q/k norm
  kernels::AttentionResult attention;
  Tensor mid_MD, rstd_mid_M, m_MD;  // x' and its norm
  Tensor gate_up, product_MF;
  // a, m and product as the weight gradients read them; they stand for the three where products
  // are in float8 and no adapter reads those.
  kernels::Float8Matrix a_DN, m_DM, product_FM;
};

struct BlockOutput {
  ResidualStream stream;  // M rows
  BlockActivations kept;  // by level; empty with `keep` off
};

class Block {
 public:
  explicit Block(const BlockShape& shape) : shape_(shape) {}

  // `rows_M` (int32, ascending; undefined = all): only these rows go on after the attention, so a
  // head pays for its targets alone. `keep` off: nothing is kept (evaluation).
  BlockOutput forward(const BlockParams& params, const ResidualStream& in, const Tensor& rows_M,
                      const BlockContext& context, Recompute level, bool keep) const;

  // dy_MD: gradient of the output stream, overwritten. Returns the gradient of the input stream,
  // [N, D]. Recomputes what the level left out, with the same weights: a recompute happens inside
  // an acquire.
  Tensor backward(const BlockParams& params, BlockActivations kept, Tensor dy_MD,
                  const BlockContext& context, Recompute level) const;

 private:
  // `keep_inputs`: of the projections, for their backward.
  void run(const BlockParams& params, const ResidualStream& in, const BlockContext& context,
           bool keep_inputs, BlockActivations& all, Tensor& down_MD) const;
  void rotate_heads(const BlockParams& params, const BlockContext& context,
                    BlockActivations& all) const;
  Tensor mlp_backward(const BlockParams& params, BlockActivations& kept, const Tensor& dy_MD) const;
  Tensor attention_backward(const BlockParams& params, BlockActivations& kept, const Tensor& do_NK,
                            const BlockContext& context) const;

  BlockShape shape_;
};

}  // namespace wmtp::model
