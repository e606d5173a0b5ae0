#include "wmtp/kernels/rope.h"

#include <ATen/ops/cos.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sin.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

std::int64_t row_width(const HeadShape& heads) {
  WMTP_CHECK(heads.num_heads > 0 && heads.num_kv_heads > 0, "rope: no heads");
  WMTP_CHECK(heads.head_dim > 0 && heads.head_dim % 2 == 0, "rope: head_dim is odd");
  return static_cast<std::int64_t>(heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim;
}

void check_table(const ArgChecks& demands, const RopeTable& table, std::int64_t tokens,
                 const HeadShape& heads, DType dtype) {
  demands.matrix("cos", table.cos_NF, tokens, heads.head_dim / 2, statistics_dtype(dtype))
      .matrix("sin", table.sin_NF, tokens, heads.head_dim / 2, statistics_dtype(dtype));
  WMTP_CHECK(table.cos_NF.is_contiguous() && table.sin_NF.is_contiguous(),
             "rope: the table is not contiguous");
}

void check_rope(const Rope& args) {
  const ArgChecks demands("rope", args.qkv_NC);
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

void check_rope(const RopeBackward& args) {
  const ArgChecks demands("rope_backward", args.dqkv_NC);
  const DType dtype = args.dqkv_NC.scalar_type();
  const std::int64_t tokens = args.dqkv_NC.size(0), size = args.heads.head_dim;
  const std::int64_t num_q = args.heads.num_heads, num_kv = args.heads.num_kv_heads;
  demands.matrix("dqkv", args.dqkv_NC, tokens, row_width(args.heads), dtype)
      .heads("dq", args.dq_NHE, {tokens, num_q, size}, dtype)
      .heads("dk", args.dk_NGE, {tokens, num_kv, size}, dtype)
      .heads("dv", args.dv_NGE, {tokens, num_kv, size}, dtype);
  if (args.amax.defined()) demands.vector("amax", args.amax, 1, kFloat32);
  check_table(demands, args.table, tokens, args.heads, dtype);
  if (!args.q_weight_E.defined()) return;
  demands.matrix("qkv", args.qkv_NC, tokens, row_width(args.heads), dtype)
      .matrix("qk_rstd", args.qk_rstd, tokens, num_q + num_kv, statistics_dtype(dtype))
      .vector("q_weight", args.q_weight_E, size, dtype)
      .vector("k_weight", args.k_weight_E, size, dtype);
  if (args.dq_weight_E.defined()) demands.gradient("dq_weight", args.dq_weight_E, {size});
  if (args.dk_weight_E.defined()) demands.gradient("dk_weight", args.dk_weight_E, {size});
}

void rope_on_gpu(const Rope& a) {
  CudaRope args{};
  args.element = element_of("rope", a.qkv_NC);
  args.cos = floats_of(a.table.cos_NF), args.sin = floats_of(a.table.sin_NF);
  args.qkv = data_of(a.qkv_NC), args.qkv_stride = row_stride(a.qkv_NC);
  args.q_weight = data_of(a.q_weight_E), args.k_weight = data_of(a.k_weight_E);
  args.out = data_of(a.qk_out), args.out_stride = row_stride(a.qk_out);
  args.rstd = floats_of(a.qk_rstd);
  args.tokens = a.qkv_NC.size(0);
  args.num_q = a.heads.num_heads, args.num_kv = a.heads.num_kv_heads;
  args.head_dim = a.heads.head_dim, args.eps = static_cast<float>(a.eps);
  check_launch("rope", gpu_kernels().rope(args, gpu_stream()));
}

void rope_on_gpu(const RopeBackward& a) {
  CudaRopeBackward args{};
  args.element = element_of("rope_backward", a.dqkv_NC);
  args.cos = floats_of(a.table.cos_NF), args.sin = floats_of(a.table.sin_NF);
  args.rstd = floats_of(a.qk_rstd);
  args.dq = data_of(a.dq_NHE), args.dk = data_of(a.dk_NGE), args.dv = data_of(a.dv_NGE);
  args.dq_token = a.dq_NHE.stride(0), args.dq_head = a.dq_NHE.stride(1);
  args.dk_token = a.dk_NGE.stride(0), args.dk_head = a.dk_NGE.stride(1);
  args.dv_token = a.dv_NGE.stride(0), args.dv_head = a.dv_NGE.stride(1);
  args.qkv = data_of(a.qkv_NC), args.qkv_stride = row_stride(a.qkv_NC);
  args.q_weight = data_of(a.q_weight_E), args.k_weight = data_of(a.k_weight_E);
  args.dqkv = data_of(a.dqkv_NC), args.dqkv_stride = row_stride(a.dqkv_NC);
  args.tokens = a.dqkv_NC.size(0);
  args.num_q = a.heads.num_heads, args.num_kv = a.heads.num_kv_heads;
  args.head_dim = a.heads.head_dim, args.amax = floats_of(a.amax);
  args.num_blocks = static_cast<int>(std::min<std::int64_t>(args.tokens, kMaxPartialBlocks));
  args.dq_weight = data_of(a.dq_weight_E), args.dk_weight = data_of(a.dk_weight_E);
  Tensor partial;
  if (args.dq_weight || args.dk_weight) {
    args.dweight_element =
        element_of("rope_backward", args.dq_weight ? a.dq_weight_E : a.dk_weight_E);
    partial = at::empty({args.num_blocks, 2 * args.head_dim}, a.dqkv_NC.options().dtype(kFloat32));
    args.partial = floats_of(partial);
  }
  check_launch("rope_backward", gpu_kernels().rope_backward(args, gpu_stream()));
}

}  // namespace

RopeTable rope_table(const Tensor& positions_N, const Tensor& inv_freq_F) {
  const Tensor angle_NF =
      at::mul(positions_N.to(inv_freq_F.scalar_type()).unsqueeze(1), inv_freq_F.unsqueeze(0));
  return {at::cos(angle_NF), at::sin(angle_NF)};
}

void rope(const Rope& args) {
  const ProfiledOperator operation("wmtp::rope");
  check_rope(args);
  if (args.qkv_NC.numel() == 0) return;
  if (args.qkv_NC.is_cuda()) return rope_on_gpu(args);
  if (is_double_on_cpu("rope", args.qkv_NC)) return cpu::rope<double>(args);
  cpu::fast::rope(args);
}

void rope_backward(const RopeBackward& args) {
  const ProfiledOperator operation("wmtp::rope_backward");
  check_rope(args);
  if (args.dqkv_NC.numel() == 0) return;
  if (args.dqkv_NC.is_cuda()) return rope_on_gpu(args);
  is_double_on_cpu("rope_backward", args.dqkv_NC) ? cpu::rope_backward<double>(args)
                                                  : cpu::fast::rope_backward(args);
  cpu::raise_amax(args.amax, args.dqkv_NC);
}

}  // namespace wmtp::kernels
