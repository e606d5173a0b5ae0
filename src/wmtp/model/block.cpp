#include "wmtp/model/block.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/swiglu.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::model {
namespace {

// Statistics are fp32 whatever the activations are; fp64 in the tests' double precision.
at::TensorOptions statistics(const Tensor& like) {
  return like.options().dtype(like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// out = RMSNorm(stream); returns the stream's value. The sum takes the storage of the pending part.
// amax (may be undefined): of out.
Tensor normalise(const ResidualStream& in, const NormWeight& norm, double eps, Tensor& out_ND,
                 Tensor& rstd_N, const Tensor& amax) {
  const bool adds = in.pending_ND.defined();
  const Tensor value_ND = adds ? in.pending_ND : in.base_ND;
  out_ND = at::empty_like(in.base_ND);
  rstd_N = at::empty({in.base_ND.size(0)}, statistics(in.base_ND));
  kernels::rms_norm({.x_ND = in.base_ND,
                     .delta_ND = in.pending_ND,
                     .weight_D = norm.weight,
                     .eps = eps,
                     .sum_ND = adds ? value_ND : Tensor(),
                     .out_ND = out_ND,
                     .rstd_N = rstd_N,
                     .amax = amax});
  return value_ND;
}

Tensor take_rows(const Tensor& all_N, const Tensor& rows_M) {
  return rows_M.defined() ? at::index_select(all_N, 0, rows_M) : all_N;
}

struct Qkv {
  Tensor q_NHE, k_NGE, v_NGE;
};

// Heads as strided views of the fused projection; with a q/k norm q and k lie in a buffer of their
// own.
Qkv split_heads(const kernels::HeadShape& heads, const Tensor& qkv_NC, const Tensor& qk_NC) {
  const std::int64_t n = qkv_NC.size(0), e = heads.head_dim;
  const std::int64_t q_width = heads.num_heads * e, kv_width = heads.num_kv_heads * e;
  const Tensor& qk = qk_NC.defined() ? qk_NC : qkv_NC;
  return {qk.narrow(1, 0, q_width).view({n, heads.num_heads, e}),
          qk.narrow(1, q_width, kv_width).view({n, heads.num_kv_heads, e}),
          qkv_NC.narrow(1, q_width + kv_width, kv_width).view({n, heads.num_kv_heads, e})};
}

// Of products whose weight is frozen and has no adapter.
void drop_unread_inputs(const BlockParams& params, BlockActivations& kept) {
  if (!reads_input(params.qkv)) kept.a_ND = Tensor();
  if (!reads_input(params.gate_up)) kept.m_MD = Tensor();
  if (!reads_input(params.down)) kept.product_MF = Tensor();
}

// y = x W^T. With `keep` and products in float8, x is kept in 8 bits for the weight gradient, and x
// itself goes where nothing else reads it.
Tensor project(const Projection& projection, bool keep, Tensor& x_NI, const Tensor& amax,
               kernels::Float8Matrix& kept) {
  const Tensor y_NO = model::forward(projection, x_NI, keep ? &kept : nullptr, {.x = amax});
  if (keep && projection.float8 != kernels::Float8Recipe::off && projection.groups.empty())
    x_NI = Tensor();
  return y_NO;
}

// Whether the input must be computed again for the backward.
bool lacks_input(const Projection& projection, const Tensor& x_NI,
                 const kernels::Float8Matrix& kept) {
  return !x_NI.defined() && !kept.defined() && reads_input(projection);
}

}  // namespace

// q and k become rotated, in place or, with a q/k norm, in a buffer of their own: the norm's
// backward reads its input.
void Block::rotate_heads(const BlockParams& params, const BlockContext& context,
                         BlockActivations& all) const {
  if (shape_.qk_norm) {
    const auto& heads = shape_.heads;
    const std::int64_t n = all.qkv_NC.size(0), num_qk = heads.num_heads + heads.num_kv_heads;
    all.qk_NC = at::empty({n, num_qk * heads.head_dim}, all.qkv_NC.options());
    all.qk_rstd = at::empty({n, num_qk}, statistics(all.qkv_NC));
  }
  kernels::rope({.heads = shape_.heads,
                 .table = *context.rope,
                 .qkv_NC = all.qkv_NC,
                 .q_weight_E = params.q_norm.weight,
                 .k_weight_E = params.k_norm.weight,
                 .eps = shape_.norm_eps,
                 .qk_out = all.qk_NC,
                 .qk_rstd = all.qk_rstd});
}

void Block::run(const BlockParams& params, const ResidualStream& in, const BlockContext& context,
                bool keep_inputs, BlockActivations& all, Tensor& down_MD) const {
  const Tensor amax_a = amax_for(params.qkv, in.base_ND);
  all.x_ND = normalise(in, params.input_norm, shape_.norm_eps, all.a_ND, all.rstd_in_N, amax_a);
  all.qkv_NC = project(params.qkv, keep_inputs, all.a_ND, amax_a, all.a_DN);
  rotate_heads(params, context, all);
  const Qkv qkv = split_heads(shape_.heads, all.qkv_NC, all.qk_NC);
  all.attention =
      kernels::attention(qkv.q_NHE, qkv.k_NGE, qkv.v_NGE, *context.documents, context.attention);
  const Tensor o_MK = take_rows(all.attention.out_NHE.flatten(1), all.rows_M);
  const ResidualStream after_attention{take_rows(all.x_ND, all.rows_M),
                                       model::forward(params.o, o_MK)};
  const Tensor amax_m = amax_for(params.gate_up, all.x_ND);
  all.mid_MD = normalise(after_attention, params.post_norm, shape_.norm_eps, all.m_MD,
                         all.rstd_mid_M, amax_m);
  all.gate_up = project(params.gate_up, keep_inputs, all.m_MD, amax_m, all.m_DM);
  all.product_MF = at::empty({all.gate_up.size(0), all.gate_up.size(1) / 2}, all.gate_up.options());
  const Tensor amax_product = amax_for(params.down, all.gate_up);
  kernels::swiglu(all.gate_up, all.product_MF, amax_product);
  down_MD = project(params.down, keep_inputs, all.product_MF, amax_product, all.product_FM);
}

BlockOutput Block::forward(const BlockParams& params, const ResidualStream& in,
                           const Tensor& rows_M, const BlockContext& context, Recompute level,
                           bool keep) const {
  BlockActivations all;
  all.rows_M = rows_M;
  BlockOutput out;
  Tensor down_MD;
  run(params, in, context, keep && level == Recompute::none, all, down_MD);
  out.stream = {all.mid_MD, down_MD};
  if (!keep) return out;
  if (level == Recompute::block) {
    out.kept.x_ND = all.x_ND;
    out.kept.rows_M = rows_M;
    return out;
  }
  out.kept = std::move(all);
  if (level == Recompute::light) {
    out.kept.a_ND = out.kept.m_MD = out.kept.product_MF = Tensor();
    out.kept.qk_NC = out.kept.qk_rstd = Tensor();
  }
  drop_unread_inputs(params, out.kept);
  return out;
}

Tensor Block::backward(const BlockParams& params, BlockActivations kept, Tensor dy_MD,
                       const BlockContext& context, Recompute level) const {
  if (level == Recompute::block) {
    const ProfileScope scope("recompute");
    const ResidualStream in{kept.x_ND, Tensor()};
    Tensor down_MD;
    run(params, in, context, /*keep_inputs=*/true, kept, down_MD);
    drop_unread_inputs(params, kept);
  }
  const Tensor dmid_MD = mlp_backward(params, kept, dy_MD);
  const Tensor attention_out_NK = kept.attention.out_NHE.flatten(1);
  const Tensor do_MK = model::backward(params.o, take_rows(attention_out_NK, kept.rows_M), dmid_MD);
  Tensor do_NK = do_MK, dx_ND = dmid_MD;
  if (kept.rows_M.defined()) {
    do_NK = at::zeros(attention_out_NK.sizes(), do_MK.options())
                .index_copy_(0, kept.rows_M.to(at::kLong), do_MK);
    dx_ND = at::zeros(kept.x_ND.sizes(), dmid_MD.options())
                .index_copy_(0, kept.rows_M.to(at::kLong), dmid_MD);
  }
  const Tensor da_ND = attention_backward(params, kept, do_NK, context);
  kernels::rms_norm_backward({.dout_ND = da_ND,
                              .x_ND = kept.x_ND,
                              .rstd_N = kept.rstd_in_N,
                              .weight_D = params.input_norm.weight,
                              .dx_ND = dx_ND,
                              .dweight_D = params.input_norm.dweight});
  return dx_ND;
}

// dy_MD becomes the gradient of x'.
Tensor Block::mlp_backward(const BlockParams& params, BlockActivations& kept,
                           const Tensor& dy_MD) const {
  OperandAmax at_gate_up{{}, amax_for(params.gate_up, dy_MD)}, at_down;
  if (lacks_input(params.gate_up, kept.m_MD, kept.m_DM)) {
    kept.m_MD = at::empty_like(kept.mid_MD);
    at_gate_up.x = amax_for(params.gate_up, dy_MD);
    kernels::rms_norm({.x_ND = kept.mid_MD,
                       .delta_ND = {},
                       .weight_D = params.post_norm.weight,
                       .eps = shape_.norm_eps,
                       .sum_ND = {},
                       .out_ND = kept.m_MD,
                       .rstd_N = kept.rstd_mid_M,
                       .amax = at_gate_up.x});
  }
  if (lacks_input(params.down, kept.product_MF, kept.product_FM)) {
    kept.product_MF =
        at::empty({kept.gate_up.size(0), kept.gate_up.size(1) / 2}, kept.gate_up.options());
    at_down.x = amax_for(params.down, dy_MD);
    kernels::swiglu(kept.gate_up, kept.product_MF, at_down.x);
  }
  const Tensor dproduct_MF =
      model::backward(params.down, kept.product_MF, dy_MD, kept.product_FM, at_down);
  kept.product_MF = Tensor(), kept.product_FM = {};
  kernels::swiglu_backward(
      {.dout_NF = dproduct_MF, .gate_up_N2F = kept.gate_up, .out_NF = {}, .amax = at_gate_up.dy});
  const Tensor dm_MD =
      model::backward(params.gate_up, kept.m_MD, kept.gate_up, kept.m_DM, at_gate_up);
  kept.m_MD = kept.gate_up = Tensor(), kept.m_DM = {};
  kernels::rms_norm_backward({.dout_ND = dm_MD,
                              .x_ND = kept.mid_MD,
                              .rstd_N = kept.rstd_mid_M,
                              .weight_D = params.post_norm.weight,
                              .dx_ND = dy_MD,
                              .dweight_D = params.post_norm.dweight});
  return dy_MD;
}

// Returns the gradient of a = RMSNorm(x).
Tensor Block::attention_backward(const BlockParams& params, BlockActivations& kept,
                                 const Tensor& do_NK, const BlockContext& context) const {
  if (shape_.qk_norm && !kept.qk_NC.defined()) rotate_heads(params, context, kept);
  const Qkv qkv = split_heads(shape_.heads, kept.qkv_NC, kept.qk_NC);
  const auto grads =
      kernels::attention_backward({.dout_NHE = do_NK.view(kept.attention.out_NHE.sizes()),
                                   .q_NHE = qkv.q_NHE,
                                   .k_NGE = qkv.k_NGE,
                                   .v_NGE = qkv.v_NGE,
                                   .forward = &kept.attention,
                                   .documents = context.documents,
                                   .options = context.attention});
  Tensor dqkv_NC = at::empty_like(kept.qkv_NC);
  OperandAmax amax{{}, amax_for(params.qkv, dqkv_NC)};
  kernels::rope_backward({.heads = shape_.heads,
                          .table = *context.rope,
                          .dq_NHE = grads.dq_NHE,
                          .dk_NGE = grads.dk_NGE,
                          .dv_NGE = grads.dv_NGE,
                          .qkv_NC = kept.qkv_NC,
                          .qk_rstd = kept.qk_rstd,
                          .q_weight_E = params.q_norm.weight,
                          .k_weight_E = params.k_norm.weight,
                          .dqkv_NC = dqkv_NC,
                          .dq_weight_E = params.q_norm.dweight,
                          .dk_weight_E = params.k_norm.dweight,
                          .amax = amax.dy});
  if (lacks_input(params.qkv, kept.a_ND, kept.a_DN)) {
    kept.a_ND = at::empty_like(kept.x_ND);
    amax.x = amax_for(params.qkv, dqkv_NC);
    kernels::rms_norm({.x_ND = kept.x_ND,
                       .delta_ND = {},
                       .weight_D = params.input_norm.weight,
                       .eps = shape_.norm_eps,
                       .sum_ND = {},
                       .out_ND = kept.a_ND,
                       .rstd_N = kept.rstd_in_N,
                       .amax = amax.x});
  }
  return model::backward(params.qkv, kept.a_ND, dqkv_NC, kept.a_DN, amax);
}

}  // namespace wmtp::model
