// Ops over rows of activations. N rows, D features.
#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/simd/table.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu::fast {
namespace {

// Sums over rows are made per block of rows and added up in order, so no thread count shows in
// them.
constexpr std::int64_t kBlockRows = 32;

std::int64_t num_blocks(std::int64_t rows) {
  return (rows + kBlockRows - 1) / kBlockRows;
}

// body(begin row, end row, block) for all blocks.
template <class Body>
void over_blocks(std::int64_t rows, std::int64_t columns, const Body& body) {
  parallel_for(num_blocks(rows), grain_of(kBlockRows * columns),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t b = begin; b < end; ++b)
                   body(b * kBlockRows, std::min(rows, (b + 1) * kBlockRows), b);
               });
}

// sum[d] += partial[0][d] + partial[1][d] + ...
void add_partials(const Tensor& partial_BD, std::int64_t first_column, const Tensor& sum_D) {
  if (!sum_D.defined()) return;
  const Rows<float> partial(partial_BD);
  float* sum = sum_D.data_ptr<float>();
  for (std::int64_t b = 0; b < partial.rows; ++b)
    for (std::int64_t d = 0; d < sum_D.numel(); ++d) sum[d] += partial[b][first_column + d];
}

}  // namespace

void rms_norm(const RmsNorm& args) {
  const Rows<float> x(args.x_ND), delta(args.delta_ND), sum(args.sum_ND), out(args.out_ND);
  const NormRows rows{x.data,     delta.data,   args.weight_D.data_ptr<float>(),
                      sum.data,   out.data,     args.rstd_N.data_ptr<float>(),
                      x.stride,   delta.stride, sum.stride,
                      out.stride, x.columns,    static_cast<float>(args.eps)};
  parallel_for(x.rows, grain_of(x.columns), [&](std::int64_t begin, std::int64_t end) {
    simd_kernels().rms_norm(rows, begin, end);
  });
}

void rms_norm_backward(const RmsNormBackward& args) {
  const Rows<float> dout(args.dout_ND), x(args.x_ND), dx(args.dx_ND);
  const NormBackwardRows rows{dout.data,
                              x.data,
                              args.rstd_N.data_ptr<float>(),
                              args.weight_D.data_ptr<float>(),
                              dx.data,
                              dout.stride,
                              x.stride,
                              dx.stride,
                              x.columns};
  const bool trained = args.dweight_D.defined();
  const Tensor partial_BD =
      at::empty({trained ? num_blocks(x.rows) : 0, x.columns}, args.x_ND.options());
  const Rows<float> partial(partial_BD);
  over_blocks(x.rows, x.columns, [&](std::int64_t begin, std::int64_t end, std::int64_t block) {
    simd_kernels().rms_norm_backward(rows, begin, end, trained ? partial[block] : nullptr);
  });
  add_partials(partial_BD, 0, args.dweight_D);
}

void rope(const Rope& args) {
  const Rows<float> cos(args.table.cos_NF), sin(args.table.sin_NF), qkv(args.qkv_NC),
      out(args.qk_out), rstd(args.qk_rstd);
  RopeRows rows{};
  rows.cos = cos.data, rows.sin = sin.data, rows.table_stride = cos.stride;
  rows.qkv = qkv.data, rows.qkv_stride = qkv.stride;
  rows.q_weight = data_or_null<float>(args.q_weight_E);
  rows.k_weight = data_or_null<float>(args.k_weight_E);
  rows.out = out.data, rows.out_stride = out.stride;
  rows.rstd = rstd.data, rows.rstd_stride = rstd.stride;
  rows.num_q = args.heads.num_heads, rows.num_kv = args.heads.num_kv_heads;
  rows.head_dim = args.heads.head_dim, rows.eps = static_cast<float>(args.eps);
  parallel_for(qkv.rows, grain_of(qkv.columns), [&](std::int64_t begin, std::int64_t end) {
    simd_kernels().rope(rows, begin, end);
  });
}

void rope_backward(const RopeBackward& args) {
  const Rows<float> cos(args.table.cos_NF), sin(args.table.sin_NF), qkv(args.qkv_NC),
      rstd(args.qk_rstd), dqkv(args.dqkv_NC);
  const Heads<float> dq(args.dq_NHE), dk(args.dk_NGE), dv(args.dv_NGE);
  RopeBackwardRows rows{};
  rows.cos = cos.data, rows.sin = sin.data, rows.table_stride = cos.stride;
  rows.dq = dq.data, rows.dq_token = dq.token_stride, rows.dq_head = dq.head_stride;
  rows.dk = dk.data, rows.dk_token = dk.token_stride, rows.dk_head = dk.head_stride;
  rows.dv = dv.data, rows.dv_token = dv.token_stride, rows.dv_head = dv.head_stride;
  rows.qkv = qkv.data, rows.qkv_stride = qkv.stride;
  rows.rstd = rstd.data, rows.rstd_stride = rstd.stride;
  rows.q_weight = data_or_null<float>(args.q_weight_E);
  rows.k_weight = data_or_null<float>(args.k_weight_E);
  rows.dqkv = dqkv.data, rows.dqkv_stride = dqkv.stride;
  rows.num_q = args.heads.num_heads, rows.num_kv = args.heads.num_kv_heads;
  rows.head_dim = args.heads.head_dim;
  const bool trained = args.dq_weight_E.defined() || args.dk_weight_E.defined();
  const Tensor partial_B2E =
      at::empty({trained ? num_blocks(dqkv.rows) : 0, 2 * rows.head_dim}, args.dqkv_NC.options());
  const Rows<float> partial(partial_B2E);
  over_blocks(dqkv.rows, dqkv.columns,
              [&](std::int64_t begin, std::int64_t end, std::int64_t block) {
                simd_kernels().rope_backward(rows, begin, end, trained ? partial[block] : nullptr);
              });
  add_partials(partial_B2E, 0, args.dq_weight_E);
  add_partials(partial_B2E, rows.head_dim, args.dk_weight_E);
}

void swiglu(const Tensor& gate_up_N2F, const Tensor& out_NF) {
  const Rows<float> gate_up(gate_up_N2F), out(out_NF);
  const SwigluRows rows{gate_up.data, nullptr,    out.data, gate_up.stride, 0,
                        out.stride,   out.columns};
  parallel_for(out.rows, grain_of(out.columns), [&](std::int64_t begin, std::int64_t end) {
    simd_kernels().swiglu(rows, begin, end);
  });
}

void swiglu_backward(const SwigluBackward& args) {
  const Rows<float> dout(args.dout_NF), gate_up(args.gate_up_N2F), out(args.out_NF);
  const SwigluRows rows{gate_up.data, dout.data,  out.data,    gate_up.stride,
                        dout.stride,  out.stride, dout.columns};
  parallel_for(dout.rows, grain_of(dout.columns), [&](std::int64_t begin, std::int64_t end) {
    simd_kernels().swiglu_backward(rows, begin, end);
  });
}

void cross_entropy(const CrossEntropy& args) {
  const Rows<float> logits(args.logits_MV), hidden(args.hidden_MD);
  const CrossEntropyRows rows{logits.data,
                              args.targets_M.data_ptr<std::int32_t>(),
                              data_or_null<float>(args.scale_M),
                              args.nll_M.data_ptr<float>(),
                              hidden.data,
                              logits.stride,
                              hidden.stride,
                              logits.columns,
                              hidden.columns};
  parallel_for(logits.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    simd_kernels().cross_entropy(rows, begin, end);
  });
}

}  // namespace wmtp::kernels::cpu::fast
