// Attention over documents. N tokens, H query heads, G key/value heads, E head features.
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/triu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/attention.h"

namespace wmtp::kernels::testing {
namespace {

struct AttentionShape {
  std::vector<std::int32_t> start;
  std::int64_t num_q, num_kv, size;
};

// The three parts are views of one fused row, as in the model.
Tensors run_attention(const Tensors& in, const AttentionShape& shape, AttentionOptions options) {
  const Tensor fused = copied(at::cat({in.at("q"), in.at("k"), in.at("v")}, 1));
  const Tensor q = fused.narrow(1, 0, shape.num_q);
  const Tensor k = fused.narrow(1, shape.num_q, shape.num_kv);
  const Tensor v = fused.narrow(1, shape.num_q + shape.num_kv, shape.num_kv);
  const Documents documents = make_documents(shape.start, q.device());
  if (q.is_cuda()) options.choice = AttentionChoice::automatic;
  const AttentionResult forward = attention(q, k, v, documents, options);
  const AttentionGrads grads =
      attention_backward({in.at("dout"), q, k, v, &forward, &documents, options});
  return {
      {"out", forward.out_NHE}, {"dq", grads.dq_NHE}, {"dk", grads.dk_NGE}, {"dv", grads.dv_NGE}};
}

Tensors define_attention(const Tensors& in, const AttentionShape& shape) {
  std::vector<Tensor> documents{in.at("q").narrow(0, 0, 0)};
  for (std::size_t d = 0; d + 1 < shape.start.size(); ++d) {
    const std::int64_t first = shape.start[d], length = shape.start[d + 1] - first;
    const auto heads = [&](const char* name) {
      const Tensor part = in.at(name).narrow(0, first, length).transpose(0, 1);
      return part.repeat_interleave(shape.num_q / part.size(0), 0);
    };
    const Tensor mask =
        at::triu(at::ones({length, length}, at::TensorOptions().dtype(kFloat64)), 1);
    const Tensor scores = at::matmul(heads("q"), heads("k").transpose(1, 2)) /
                          std::sqrt(static_cast<double>(shape.size));
    const Tensor masked =
        scores.masked_fill(mask.to(c10::kBool), -std::numeric_limits<double>::infinity());
    documents.push_back(at::matmul(at::softmax(masked, 2), heads("v")).transpose(0, 1));
  }
  return {{"out", at::cat(documents, 0)}};
}

OpCase attention_case(const AttentionShape& shape, AttentionOptions options) {
  OpCase op;
  const bool reference = options.choice == AttentionChoice::reference;
  op.name = fmt::format("attention_{}_{}_{}_{}{}{}", fmt::join(shape.start, "_"), shape.num_q,
                        shape.num_kv, shape.size, reference ? "_reference" : "",
                        options.deterministic ? "_deterministic" : "");
  const std::int64_t tokens = shape.start.back();
  op.inputs = [=] {
    return Tensors{{"q", normals("q", {tokens, shape.num_q, shape.size})},
                   {"k", normals("k", {tokens, shape.num_kv, shape.size})},
                   {"v", normals("v", {tokens, shape.num_kv, shape.size})},
                   {"dout", normals("dout", {tokens, shape.num_q, shape.size})}};
  };
  op.run = [=](const Tensors& in) { return run_attention(in, shape, options); };
  op.oracle = [=](const Tensors& in) { return define_attention(in, shape); };
  op.losses = {{"out", "dout"}};
  op.gradients = {{"q", "dq", ""}, {"k", "dk", ""}, {"v", "dv", ""}};
  op.tolerance_fp32_on_gpu = 1e-3;
  op.deterministic_on_gpu = options.deterministic;
  op.roundings = 4;
  op.longest_sum = std::max<std::int64_t>(tokens, shape.size);
  return op;
}

}  // namespace

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  for (const AttentionShape& shape : std::vector<AttentionShape>{{{0, 1}, 2, 2, 32},
                                                                 {{0, 5, 12, 13, 40}, 4, 2, 64},
                                                                 {{0, 16, 32, 48}, 8, 8, 64},
                                                                 {{0, 33, 33, 66}, 6, 2, 128},
                                                                 {{0, 128, 256}, 4, 2, 64},
                                                                 {{0}, 4, 4, 64}})
    cases.push_back(attention_case(shape, {}));
  cases.push_back(attention_case({{0, 5, 12, 13, 40}, 4, 2, 32}, {AttentionChoice::reference}));
  cases.push_back(attention_case({{0, 16, 32}, 4, 2, 64}, {AttentionChoice::automatic, true}));
  return cases;
}

// Every even head with one, two and all key/value heads, then what chooses another kernel on a GPU:
// documents of one length (cuDNN), heads above 256 (efficient), deterministic (flash).
std::vector<OpCase> attention_shapes() {
  std::vector<OpCase> cases;
  const std::vector<std::int32_t> mixed{0, 1, 1, 8, 17}, alike{0, 128, 256};
  for (std::int64_t size = 2; size <= 256; size += 2)
    for (const std::int64_t num_kv : {1, 2, 4})
      cases.push_back(attention_case({mixed, 4, num_kv, size}, {}));
  for (const std::int64_t size : {258, 264, 320, 512})
    cases.push_back(attention_case({mixed, 2, 1, size}, {}));
  for (const std::int64_t size : {2, 12, 30, 32, 40, 50, 64, 72, 80, 96, 100, 112, 128, 130, 256})
    for (const std::int64_t num_kv : {1, 2, 4})
      cases.push_back(attention_case({alike, 4, num_kv, size}, {}));
  for (const std::int64_t size : {12, 64})
    cases.push_back(attention_case({alike, 4, 2, size}, {AttentionChoice::automatic, true}));
  for (const std::int64_t num_heads : {1, 7, 9, 127, 129})
    cases.push_back(attention_case({{0, 9}, num_heads, 1, 12}, {}));
  for (const std::int64_t size : {12, 64}) {
    OpCase op = attention_case({{0, 1, 8, 16, 25, 152, 281, 281, 4378}, 2, 1, size}, {});
    op.dear_oracle = true;
    cases.push_back(op);
  }
  cases.push_back(attention_case({{0, 0, 0}, 2, 1, 12}, {}));
  return cases;
}

}  // namespace wmtp::kernels::testing
