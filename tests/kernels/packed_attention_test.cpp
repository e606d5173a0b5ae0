// Attention over documents of different lengths by cuDNN: buckets and device data on any machine;
// on a GPU, and on the emulated one, whose slots have the library's demands, against the CPU's
// definition. N tokens, H query heads, G key/value heads, E head features.
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "support/expect_error.h"
#include "support/tolerance.h"
#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/packed/attention.h"
#include "wmtp/kernels/packed/documents.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {
namespace {

std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> start{0};
  for (const std::int32_t length : lengths) start.push_back(start.back() + length);
  return start;
}

std::vector<std::int32_t> numbers_of(const Tensor& tensor) {
  const Tensor host = tensor.cpu().contiguous();
  return {host.const_data_ptr<std::int32_t>(), host.const_data_ptr<std::int32_t>() + host.numel()};
}

TEST(PackedDocuments, BucketsAreTheNextPowersOfTwo) {
  EXPECT_EQ(packed_bucket(1, 1, 1), (PackedBucket{1, 128, 1024}));
  EXPECT_EQ(packed_bucket(5, 128, 129), (PackedBucket{8, 128, 1024}));
  EXPECT_EQ(packed_bucket(8, 129, 1024), (PackedBucket{8, 256, 1024}));
  EXPECT_EQ(packed_bucket(8, 129, 1025), (PackedBucket{8, 256, 2048}));
  EXPECT_EQ(packed_bucket(40000, 2048, 40000), (PackedBucket{65535, 2048, 65536}));
  EXPECT_EQ(packed_score_bytes({4, 2048, 8192}, 32), kMostPackedScoreBytes);
}

TEST(PackedDocuments, EmptyPlacesLieAtTheEndAndHaveNoLength) {
  const std::vector<std::int32_t> start = starts_of({3, 0, 129, 1, 2});
  const Tensor tensor = at::tensor(start, at::TensorOptions().dtype(kInt32));
  PackedDocuments documents(tensor, 129, start.back());
  EXPECT_EQ(numbers_of(documents.lengths()), (std::vector<std::int32_t>{3, 0, 129, 1, 2, 0, 0, 0}));
  for (const std::int32_t stride : {1, 24, 4096}) {
    std::vector<std::int32_t> wanted{start};
    wanted.resize(9, start.back());
    for (std::int32_t& offset : wanted) offset *= stride;
    EXPECT_EQ(numbers_of(documents.offsets(stride)), wanted);
    EXPECT_EQ(documents.offsets(stride).data_ptr(), documents.offsets(stride).data_ptr());
  }
}

TEST(PackedDocuments, OffsetsEndWhereInt32Does) {
  const Tensor start = at::tensor({0, 174762}, at::TensorOptions().dtype(kInt32));
  PackedDocuments documents(start, 174762, 174762);
  EXPECT_TRUE(documents.fits(12288));
  EXPECT_FALSE(documents.fits(12289));
  EXPECT_EQ(numbers_of(documents.offsets(12288)).back(), 2147475456);
  EXPECT_WMTP_ERROR(documents.offsets(12289), ErrorKind::internal, "beyond int32");
}

const c10::Device kPackedGpu(c10::kCUDA, 0);

struct PackedCase {
  std::vector<std::int32_t> lengths;
  std::int64_t num_q, num_kv, size;
  std::int64_t between = 0;  // features after those of a token, which are no numbers
};

// q, k, v and dout in fp64 as `dtype` holds them.
struct PackedInputs {
  PackedInputs(const PackedCase& of, DType dtype) {
    const std::int64_t tokens = starts_of(of.lengths).back();
    const auto drawn = [&](const char* name, std::int64_t heads) {
      return normals(name, {tokens, heads, of.size}).to(dtype).to(kFloat64);
    };
    q = drawn("q", of.num_q), k = drawn("k", of.num_kv), v = drawn("v", of.num_kv);
    dout = drawn("dout", of.num_q);
  }
  Tensor q, k, v, dout;
};

struct Computed {
  AttentionResult forward;
  AttentionGrads grads;
};

Computed compute(const Tensor& fused_NC, const PackedInputs& in, const PackedCase& of,
                 const AttentionOptions& options) {
  const auto part = [&](std::int64_t first, std::int64_t heads) {
    return fused_NC.narrow(1, first * of.size, heads * of.size).unflatten(1, {heads, of.size});
  };
  const Tensor q = part(0, of.num_q), k = part(of.num_q, of.num_kv),
               v = part(of.num_q + of.num_kv, of.num_kv);
  const Documents documents = make_documents(starts_of(of.lengths), fused_NC.device());
  Computed done;
  done.forward = attention(q, k, v, documents, options);
  const Tensor dout = in.dout.to(fused_NC.options());
  done.grads = attention_backward({dout, q, k, v, &done.forward, &documents, options});
  return done;
}

// The three parts side by side, as in the model.
Tensor fused(const PackedInputs& in, const PackedCase& of, const at::TensorOptions& options) {
  const std::int64_t width = (of.num_q + 2 * of.num_kv) * of.size;
  Tensor all = at::full({in.q.size(0), width + of.between},
                        std::numeric_limits<double>::quiet_NaN(), options);
  std::int64_t first = 0;
  for (const Tensor& part : {in.q, in.k, in.v}) {
    const Tensor flat = part.flatten(1);
    all.narrow(1, first, flat.size(1)).copy_(flat);
    first += flat.size(1);
  }
  return all;
}

// Rounded are the output, its product with dout, and each gradient; sums are fp32.
double bound_of(DType dtype) {
  return 8 * (dtype == kBFloat16 ? 0x1p-9 : 0x1p-12);
}

void expect_definition(const PackedCase& of, DType dtype, bool deterministic) {
  SCOPED_TRACE(fmt::format("lengths {} heads {}/{} of {}, {} between, {}{}",
                           fmt::join(of.lengths, " "), of.num_q, of.num_kv, of.size, of.between,
                           wmtp::name_of(dtype), deterministic ? ", deterministic" : ""));
  const PackedInputs in(of, dtype);
  const auto here = at::TensorOptions().dtype(kFloat64);
  const Computed wanted = compute(fused(in, of, here), in, of, {AttentionChoice::reference});
  const Tensor there = fused(in, of, here.dtype(dtype).device(kPackedGpu));
  const Computed found = compute(there, in, of, {AttentionChoice::cudnn, deterministic});
  ASSERT_EQ(found.forward.used, AttentionChoice::cudnn_packed);
  const auto error = [](const Tensor& a, const Tensor& b) {
    return worst_error(a.cpu().to(kFloat64), b);
  };
  EXPECT_WITHIN(error(found.forward.out_NHE, wanted.forward.out_NHE), bound_of(dtype));
  EXPECT_WITHIN(error(found.grads.dq_NHE, wanted.grads.dq_NHE), bound_of(dtype));
  EXPECT_WITHIN(error(found.grads.dk_NGE, wanted.grads.dk_NGE), bound_of(dtype));
  EXPECT_WITHIN(error(found.grads.dv_NGE, wanted.grads.dv_NGE), bound_of(dtype));
}

const std::vector<std::vector<std::int32_t>> kLengths{
    {1}, {2}, {1, 1, 1}, {127}, {129}, {127, 128, 129}, {128, 0, 1, 0, 2}, {0, 0, 3}, {5, 7, 0}};

TEST(PackedAttentionOnGpu, IsTheDefinitionAtOddLengths) {
  if (!has_packed_attention()) GTEST_SKIP() << "no GPU, or a plugin without it";
  const OneThread threads;
  for (const auto& lengths : kLengths)
    for (const bool deterministic : {false, true})
      expect_definition({lengths, 4, 2, 16}, kBFloat16, deterministic);
}

TEST(PackedAttentionOnGpu, IsTheDefinitionForEveryKindOfHead) {
  if (!has_packed_attention()) GTEST_SKIP() << "no GPU, or a plugin without it";
  const OneThread threads;
  for (const DType dtype : {kBFloat16, kFloat16})
    for (const std::int64_t num_kv : {1, 2, 4})
      for (const std::int64_t size : {2, 8, 12, 40, 64, 128, 256})
        for (const std::int64_t between : {0, 3, 8})
          expect_definition({{1, 9, 0, 30}, 4, num_kv, size, between}, dtype, false);
}

TEST(PackedAttentionOnGpu, ReproducibleRerunsHaveTheSameBits) {
  if (!has_packed_attention()) GTEST_SKIP() << "no GPU, or a plugin without it";
  const OneThread threads;
  const PackedCase of{{33, 128, 5}, 4, 2, 64};
  const PackedInputs in(of, kBFloat16);
  const Tensor rows = fused(in, of, at::TensorOptions().dtype(kBFloat16).device(kPackedGpu));
  const AttentionOptions options{AttentionChoice::cudnn, true};
  const AttentionGrads first = compute(rows, in, of, options).grads,
                       second = compute(rows, in, of, options).grads;
  EXPECT_TRUE(bit_equal(first.dq_NHE, second.dq_NHE));
  EXPECT_TRUE(bit_equal(first.dk_NGE, second.dk_NGE));
  EXPECT_TRUE(bit_equal(first.dv_NGE, second.dv_NGE));
}

AttentionChoice used_for(const PackedCase& of, const AttentionOptions& options) {
  const PackedInputs in(of, kBFloat16);
  const Tensor rows = fused(in, of, at::TensorOptions().dtype(kBFloat16).device(kPackedGpu));
  return compute(rows, in, of, options).forward.used;
}

TEST(PackedAttentionOnGpu, IsTakenWhereItIsAskedForAndTakesTheDocuments) {
  if (!has_packed_attention()) GTEST_SKIP() << "no GPU, or a plugin without it";
  const OneThread threads;
  const PackedCase alike{{128, 128}, 2, 1, 32}, mixed{{128, 64}, 2, 1, 32};
  EXPECT_EQ(used_for(alike, {AttentionChoice::cudnn}), AttentionChoice::cudnn);
  EXPECT_EQ(used_for(alike, {AttentionChoice::cudnn, true}), AttentionChoice::cudnn_packed);
  EXPECT_EQ(used_for(mixed, {AttentionChoice::cudnn}), AttentionChoice::cudnn_packed);
  EXPECT_EQ(used_for(mixed, {}), AttentionChoice::flash);
}

TEST(PackedAttentionOnGpu, DocumentsBeyondItsLimitsAreNotTaken) {
  if (!has_packed_attention()) GTEST_SKIP() << "no GPU, or a plugin without it";
  const auto bf16 = at::TensorOptions().dtype(kBFloat16).device(kPackedGpu);
  const Tensor one = at::zeros({1, 32, 8}, bf16);
  const auto takes = [&](std::int32_t length, std::int64_t stride, bool deterministic) {
    const Tensor heads = one.as_strided({1, 32, 8}, {stride, 8, 1});
    const Documents documents = make_documents({0, length}, kPackedGpu);
    return takes_packed(heads, heads, heads, documents, deterministic);
  };
  EXPECT_TRUE(takes(174762, 12288, false));
  EXPECT_FALSE(takes(174763, 12288, false));
  EXPECT_TRUE(takes(4096, 256, true));   // 1 GiB of scores' gradients
  EXPECT_FALSE(takes(4097, 256, true));  // 4 GiB
  EXPECT_TRUE(takes(4097, 256, false));
}

}  // namespace
}  // namespace wmtp::kernels::testing
