// rope with and without q/k norm. N tokens, E head features.
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sin.h>
#include <fmt/format.h>

#include <algorithm>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/kernels/support/checks.h"

namespace wmtp::kernels::testing {
namespace {

constexpr double kHeadNormEps = 1e-6;

Tensors run_rope(const Tensors& in, const HeadShape& heads, bool norm) {
  RopeTable table = rope_table(in.at("positions"), in.at("inv_freq"));
  table = {copied(table.cos_NF), copied(table.sin_NF)};
  const Tensor qkv = copied(in.at("qkv"));
  const std::int64_t tokens = qkv.size(0), size = heads.head_dim;
  const std::int64_t rotated = heads.num_heads + heads.num_kv_heads;
  Rope forward{heads, table, qkv, {}, {}, kHeadNormEps, {}, {}};
  RopeBackward backward{heads, table, in.at("dq"), in.at("dk"),     in.at("dv"), {},
                        {},    {},    {},          fresh_like(qkv), {},          {}};
  if (norm) {
    forward.q_weight_E = backward.q_weight_E = in.at("q_weight");
    forward.k_weight_E = backward.k_weight_E = in.at("k_weight");
    forward.qk_out = fresh({tokens, rotated * size}, qkv.options());
    forward.qk_rstd = backward.qk_rstd =
        fresh({tokens, rotated}, qkv.options().dtype(statistics_dtype(qkv.scalar_type())));
    backward.qkv_NC = qkv;
    backward.dq_weight_E = copied(in.at("dq_weight"));
    backward.dk_weight_E = copied(in.at("dk_weight"));
  }
  rope(forward);
  rope_backward(backward);
  const Tensor qk = norm ? forward.qk_out : qkv.narrow(1, 0, rotated * size);
  Tensors out{{"q", qk.narrow(1, 0, heads.num_heads * size).unflatten(1, {heads.num_heads, size})},
              {"k", qk.narrow(1, heads.num_heads * size, heads.num_kv_heads * size)
                        .unflatten(1, {heads.num_kv_heads, size})},
              {"v", qkv.narrow(1, rotated * size, heads.num_kv_heads * size)
                        .unflatten(1, {heads.num_kv_heads, size})},
              {"dqkv", backward.dqkv_NC}};
  if (norm) {
    out["dqw"] = backward.dq_weight_E;
    out["dkw"] = backward.dk_weight_E;
  }
  return out;
}

Tensor rotated(const Tensor& heads_NHE, const Tensor& angle_NF) {
  const std::int64_t half = heads_NHE.size(2) / 2;
  const Tensor first = heads_NHE.narrow(2, 0, half), second = heads_NHE.narrow(2, half, half);
  const Tensor cos = at::cos(angle_NF).unsqueeze(1), sin = at::sin(angle_NF).unsqueeze(1);
  return at::cat({first * cos - second * sin, second * cos + first * sin}, 2);
}

Tensors define_rope(const Tensors& in, const HeadShape& heads, bool norm) {
  const std::int64_t size = heads.head_dim;
  const Tensor all = in.at("qkv").unflatten(1, {-1, size});
  Tensor q = all.narrow(1, 0, heads.num_heads);
  Tensor k = all.narrow(1, heads.num_heads, heads.num_kv_heads);
  const Tensor v = all.narrow(1, heads.num_heads + heads.num_kv_heads, heads.num_kv_heads);
  if (norm) {
    q = q * at::rsqrt(at::mean(q * q, {2}, true) + kHeadNormEps) * in.at("q_weight");
    k = k * at::rsqrt(at::mean(k * k, {2}, true) + kHeadNormEps) * in.at("k_weight");
  }
  const Tensor angle =
      in.at("positions").to(kFloat64).unsqueeze(1) * in.at("inv_freq").unsqueeze(0);
  return {{"q", rotated(q, angle)}, {"k", rotated(k, angle)}, {"v", v}};
}

Tensors rope_inputs(std::int64_t tokens, const HeadShape& heads) {
  const std::int64_t size = heads.head_dim, num_q = heads.num_heads, num_kv = heads.num_kv_heads;
  Tensor inv_freq = at::empty({size / 2}, at::TensorOptions().dtype(kFloat64));
  for (std::int64_t j = 0; j < size / 2; ++j)
    inv_freq.data_ptr<double>()[j] = std::pow(1e4, -2.0 * static_cast<double>(j) / size);
  Tensors in{{"qkv", normals("qkv", {tokens, (num_q + 2 * num_kv) * size})},
             {"positions", integers("positions", tokens, 64)},
             {"inv_freq", inv_freq},
             {"dq", normals("dq", {tokens, num_q, size})},
             {"dk", normals("dk", {tokens, num_kv, size})},
             {"dv", normals("dv", {tokens, num_kv, size})}};
  for (const char* name : {"q_weight", "k_weight", "dq_weight", "dk_weight"})
    in[name] = normals(name, {size});
  return in;
}

OpCase rope_case(std::int64_t tokens, HeadShape heads, bool norm) {
  OpCase op;
  op.name = fmt::format("rope_{}x{}_{}_{}{}", tokens, heads.num_heads, heads.num_kv_heads,
                        heads.head_dim, norm ? "_norm" : "");
  op.inputs = [=] { return rope_inputs(tokens, heads); };
  op.wide = {"inv_freq", "dq_weight", "dk_weight"};
  op.run = [=](const Tensors& in) { return run_rope(in, heads, norm); };
  op.oracle = [=](const Tensors& in) { return define_rope(in, heads, norm); };
  op.losses = {{"q", "dq"}, {"k", "dk"}, {"v", "dv"}};
  op.gradients = {{"qkv", "dqkv", ""}};
  if (norm) {
    op.gradients.push_back({"q_weight", "dqw", "dq_weight"});
    op.gradients.push_back({"k_weight", "dkw", "dk_weight"});
  }
  op.roundings = norm ? 3 : 1;
  op.longest_sum = std::max<std::int64_t>(heads.head_dim, tokens * heads.num_heads);
  return op;
}

}  // namespace

std::vector<OpCase> rope_cases() {
  std::vector<OpCase> cases;
  const std::vector<std::pair<int, HeadShape>> shapes{
      {1, {4, 2, 32}}, {5, {3, 1, 64}}, {70, {8, 8, 64}}, {37, {16, 8, 128}}, {0, {4, 4, 32}}};
  for (const auto& [tokens, heads] : shapes)
    for (const bool norm : {false, true}) cases.push_back(rope_case(tokens, heads, norm));
  return cases;
}

// Every even head with one, two and all key/value heads; then tokens and heads at the edges.
std::vector<OpCase> rope_shapes() {
  std::vector<OpCase> cases;
  const auto add = [&](std::int64_t tokens, HeadShape heads) {
    for (const bool norm : {false, true}) cases.push_back(rope_case(tokens, heads, norm));
  };
  for (int head_dim = 2; head_dim <= 256; head_dim += 2)
    for (const int num_kv : {1, 2, 4}) add(3, {4, num_kv, head_dim});
  for (const int head_dim : {258, 264, 512, 520, 1024, 1026}) add(3, {2, 1, head_dim});
  for (const std::int64_t tokens : kEdges)
    for (const int head_dim : {12, 16}) add(tokens, {2, 1, head_dim});
  for (const int num_heads : {1, 7, 9, 127, 129})
    for (const int num_kv : {1, num_heads}) add(2, {num_heads, num_kv, 12});
  add(0, {4, 2, 12});
  return cases;
}

}  // namespace wmtp::kernels::testing
