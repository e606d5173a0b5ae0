// Heads as ATen's kernels for GPUs can read them.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/attention_aten.h"

namespace wmtp::kernels::testing {
namespace {

bool lies_on_16_bytes(const Tensor& heads_NHE) {
  const std::int64_t bytes = heads_NHE.element_size();
  return reinterpret_cast<std::uintptr_t>(heads_NHE.data_ptr()) % 16 == 0 &&
         heads_NHE.stride(0) * bytes % 16 == 0 && heads_NHE.stride(1) * bytes % 16 == 0 &&
         heads_NHE.size(2) * bytes % 16 == 0;
}

// What ATen's kernels for GPUs get, given to the one for CPUs: with the scale of the true heads the
// zeros behind them change nothing, forward and backward.
TEST(Attention, FittedHeadsGiveTheSameNumbers) {
  const OneThread threads;
  const OffBoundary place;
  const Documents documents = make_documents({0, 3, 5}, c10::kCPU);
  for (std::int64_t e = 2; e <= 258; e += 2) {
    const auto heads = [&](const char* name, std::int64_t num) {
      return copied(normals(name, {5, num, e}));
    };
    const Tensor q = heads("q", 4), k = heads("k", 2), v = heads("v", 2), dout = heads("dout", 4);
    const AttentionResult plain = attention(q, k, v, documents, {});
    const AttentionGrads grads = attention_backward({dout, q, k, v, &plain, &documents, {}});
    // The scale of the kernel is that of the wider heads: q makes up for it.
    const double widened =
        std::sqrt(static_cast<double>(fitted(q).size(2)) / static_cast<double>(e));
    const Tensor q2 = fitted(q * widened), k2 = fitted(k), v2 = fitted(v), dout2 = fitted(dout);
    const AttentionResult wide = attention(q2, k2, v2, documents, {});
    const AttentionGrads wide_grads =
        attention_backward({dout2, q2, k2, v2, &wide, &documents, {}});
    const auto cut = [&](const Tensor& t) { return t.narrow(2, 0, e); };
    EXPECT_LE(worst_error(cut(wide.out_NHE), plain.out_NHE), 1e-12) << e;
    EXPECT_LE(worst_error(cut(wide_grads.dq_NHE) * widened, grads.dq_NHE), 1e-12) << e;
    EXPECT_LE(worst_error(cut(wide_grads.dk_NGE), grads.dk_NGE), 1e-12) << e;
    EXPECT_LE(worst_error(cut(wide_grads.dv_NGE), grads.dv_NGE), 1e-12) << e;
    for (const DType dtype : {kFloat32, kBFloat16})
      EXPECT_TRUE(lies_on_16_bytes(fitted(copied(q.to(dtype))))) << e << " " << name_of(dtype);
  }
}

TEST(Attention, HeadsThatFitAreNotCopied) {
  const Tensor fused = at::zeros({3, 8, 24}, at::TensorOptions().dtype(kBFloat16));
  for (const Tensor& part : {fused, fused.narrow(1, 4, 2)})
    EXPECT_EQ(fitted(part).data_ptr(), part.data_ptr());
  EXPECT_NE(fitted(fused.narrow(2, 0, 20)).data_ptr(), fused.data_ptr());
}

}  // namespace
}  // namespace wmtp::kernels::testing
