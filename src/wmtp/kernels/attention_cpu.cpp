// N tokens, H query heads, G key/value heads, E head features; B documents of one call, L tokens of
// each.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty_like.h>

#include "wmtp/kernels/attention_aten.h"
#include "wmtp/kernels/support/checks.h"

namespace wmtp::kernels {
namespace {

// What one call of the kernel covers: neighbouring documents of one length.
struct Run {
  std::int64_t first = 0, num_documents = 0, length = 0;

  Tensor of(const Tensor& heads_NHE) const {
    return as_batch(heads_NHE, first, num_documents, length);
  }
};

std::vector<Run> runs_of(const Documents& documents) {
  std::vector<Run> runs;
  for (std::size_t d = 0; d + 1 < documents.start.size(); ++d) {
    const std::int64_t first = documents.start[d], length = documents.start[d + 1] - first;
    if (length == 0) continue;
    if (!runs.empty() && runs.back().length == length)
      ++runs.back().num_documents;
    else
      runs.push_back({first, 1, length});
  }
  return runs;
}

}  // namespace

Tensor as_batch(const Tensor& heads_NHE, std::int64_t first, std::int64_t num_documents,
                std::int64_t length) {
  return heads_NHE.narrow(0, first, num_documents * length)
      .unflatten(0, {num_documents, length})
      .transpose(1, 2);
}

AttentionResult cpu_attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                              const Documents& documents) {
  AttentionResult result;
  result.used = AttentionChoice::flash;
  const std::int64_t tokens = q_NHE.size(0), num_heads = q_NHE.size(1);
  result.out_NHE = at::empty({tokens, num_heads, q_NHE.size(2)}, q_NHE.options());
  const Tensor lse_NH1 = at::empty({tokens, num_heads, 1},
                                   q_NHE.options().dtype(statistics_dtype(q_NHE.scalar_type())));
  result.lse = lse_NH1.squeeze(2);
  for (const Run& run : runs_of(documents)) {
    const auto [out_BHLE, lse_BHL] = at::_scaled_dot_product_flash_attention_for_cpu(
        run.of(q_NHE), run.of(k_NGE), run.of(v_NGE), 0.0, true);
    run.of(result.out_NHE).copy_(out_BHLE);
    run.of(lse_NH1).squeeze(3).copy_(lse_BHL);
  }
  return result;
}

AttentionGrads cpu_attention_backward(const AttentionBackward& args) {
  AttentionGrads grads{at::empty_like(args.q_NHE, at::MemoryFormat::Contiguous),
                       at::empty_like(args.k_NGE, at::MemoryFormat::Contiguous),
                       at::empty_like(args.v_NGE, at::MemoryFormat::Contiguous)};
  const Tensor lse_NH1 = args.forward->lse.unsqueeze(2);
  for (const Run& run : runs_of(*args.documents)) {
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        run.of(args.dout_NHE), run.of(args.q_NHE), run.of(args.k_NGE), run.of(args.v_NGE),
        run.of(args.forward->out_NHE), run.of(lse_NH1).squeeze(3), 0.0, true);
    run.of(grads.dq_NHE).copy_(dq);
    run.of(grads.dk_NGE).copy_(dk);
    run.of(grads.dv_NGE).copy_(dv);
  }
  return grads;
}

}  // namespace wmtp::kernels
