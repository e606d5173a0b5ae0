// Rotary embedding of the fused projection, with the split into q, k, v and (Qwen3) the per-head
// q/k norm in the same pass. A row of qkv is h query heads, g key heads, g value heads of e
// features each. Half-split pairs (j, j + e/2); angle = fp32(position) * fp32(inv_freq[j]). N
// tokens, C = (h + 2g) e, E head features, F = e / 2 frequencies.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct HeadShape {
  int num_heads = 0, num_kv_heads = 0, head_dim = 0;
};

// cos and sin of every position: fp32 (fp64 when inv_freq is). One table serves all blocks of a
// batch.
struct RopeTable {
  Tensor cos_NF, sin_NF;
};
RopeTable rope_table(const Tensor& positions_N, const Tensor& inv_freq_F);

struct Rope {
  HeadShape heads;
  RopeTable table;
  Tensor qkv_NC;  // in; rotated in place where there is no q/k norm; v is never touched
  Tensor q_weight_E, k_weight_E;  // undefined: no q/k norm
  double eps = 1e-6;
  Tensor qk_out;   // out with q/k norm: [N, (h + g) e], normalised and rotated; else undefined
  Tensor qk_rstd;  // out with q/k norm: [N, h + g], fp32
};
void rope(const Rope& args);

struct RopeBackward {
  HeadShape heads;
  RopeTable table;
  Tensor dq_NHE, dk_NGE, dv_NGE;  // any row stride, features contiguous
  Tensor qkv_NC, qk_rstd;         // what the forward saw; only read with q/k norm
  Tensor q_weight_E, k_weight_E;
  Tensor dqkv_NC;                   // out
  Tensor dq_weight_E, dk_weight_E;  // in/out: +=; undefined: frozen or no norm
  // in/out, undefined unless wanted: fp32 [1], raised to the largest |dqkv| as float8_amax has it
  Tensor amax = {};
};
void rope_backward(const RopeBackward& args);

}  // namespace wmtp::kernels
