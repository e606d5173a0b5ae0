#include "wmtp/kernels/rope.h"

#include <ATen/ops/cos.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sin.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/checks.h"
#include "wmtp/kernels/cpu/definitions.h"
#include "wmtp/kernels/cpu/fast.h"

namespace wmtp::kernels {
namespace {

std::int64_t row_width(const HeadShape& heads) {
  WMTP_CHECK(heads.num_heads > 0 && heads.num_kv_heads > 0, "rope: no heads");
  WMTP_CHECK(heads.head_dim > 0 && heads.head_dim % 2 == 0, "rope: head_dim is odd");
  return static_cast<std::int64_t>(heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim;
}

void check_table(const Demands& demands, const RopeTable& table, std::int64_t tokens,
                 const HeadShape& heads, DType dtype) {
  demands.matrix("cos", table.cos_NF, tokens, heads.head_dim / 2, statistics_dtype(dtype))
      .matrix("sin", table.sin_NF, tokens, heads.head_dim / 2, statistics_dtype(dtype));
}

void check(const Rope& args) {
  const Demands demands("rope", args.qkv_NC);
  const DType dtype = args.qkv_NC.scalar_type();
  const std::int64_t tokens = args.qkv_NC.size(0), size = args.heads.head_dim;
  const std::int64_t rotated = args.heads.num_heads + args.heads.num_kv_heads;
  demands.matrix("qkv", args.qkv_NC, tokens, row_width(args.heads), dtype);
  check_table(demands, args.table, tokens, args.heads, dtype);
  if (!args.q_weight_E.defined()) return;
  demands.vector("q_weight", args.q_weight_E, size, dtype)
      .vector("k_weight", args.k_weight_E, size, dtype)
      .matrix("qk_out", args.qk_out, tokens, rotated * size, dtype)
      .matrix("qk_rstd", args.qk_rstd, tokens, rotated, statistics_dtype(dtype));
}

void check(const RopeBackward& args) {
  const Demands demands("rope_backward", args.dqkv_NC);
  const DType dtype = args.dqkv_NC.scalar_type();
  const std::int64_t tokens = args.dqkv_NC.size(0), size = args.heads.head_dim;
  const std::int64_t num_q = args.heads.num_heads, num_kv = args.heads.num_kv_heads;
  demands.matrix("dqkv", args.dqkv_NC, tokens, row_width(args.heads), dtype)
      .heads("dq", args.dq_NHE, {tokens, num_q, size}, dtype)
      .heads("dk", args.dk_NGE, {tokens, num_kv, size}, dtype)
      .heads("dv", args.dv_NGE, {tokens, num_kv, size}, dtype);
  check_table(demands, args.table, tokens, args.heads, dtype);
  if (!args.q_weight_E.defined()) return;
  demands.matrix("qkv", args.qkv_NC, tokens, row_width(args.heads), dtype)
      .matrix("qk_rstd", args.qk_rstd, tokens, num_q + num_kv, statistics_dtype(dtype))
      .vector("q_weight", args.q_weight_E, size, dtype)
      .vector("k_weight", args.k_weight_E, size, dtype);
  if (args.dq_weight_E.defined()) demands.gradient("dq_weight", args.dq_weight_E, {size});
  if (args.dk_weight_E.defined()) demands.gradient("dk_weight", args.dk_weight_E, {size});
}

}  // namespace

RopeTable rope_table(const Tensor& positions_N, const Tensor& inv_freq_F) {
  const Tensor angle_NF =
      at::mul(positions_N.to(inv_freq_F.scalar_type()).unsqueeze(1), inv_freq_F.unsqueeze(0));
  return {at::cos(angle_NF), at::sin(angle_NF)};
}

void rope(const Rope& args) {
  check(args);
  if (is_double_on_cpu("rope", args.qkv_NC)) return cpu::rope<double>(args);
  cpu::fast::rope(args);
}

void rope_backward(const RopeBackward& args) {
  check(args);
  if (is_double_on_cpu("rope_backward", args.dqkv_NC)) return cpu::rope_backward<double>(args);
  cpu::fast::rope_backward(args);
}

}  // namespace wmtp::kernels
