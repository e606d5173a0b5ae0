// rms_norm, swiglu, embedding. N rows, D features.
#include <ATen/ops/embedding.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <fmt/format.h>

#include <algorithm>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/embedding.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/swiglu.h"

namespace wmtp::kernels::testing {
namespace {

constexpr double kNormEps = 1e-5;

Tensors run_rms_norm(const Tensors& in) {
  const Tensor& x = in.at("x");
  const bool residual = in.contains("delta");
  const auto statistics = x.options().dtype(statistics_dtype(x.scalar_type()));
  RmsNorm forward{
      x, {}, in.at("weight"), kNormEps, {}, fresh_like(x), fresh({x.size(0)}, statistics)};
  if (residual) {
    forward.delta_ND = in.at("delta");
    forward.sum_ND = fresh_like(x);
  }
  rms_norm(forward);
  RmsNormBackward backward{in.at("dout"),         residual ? forward.sum_ND : x,
                           forward.rstd_N,        in.at("weight"),
                           copied(in.at("dsum")), copied(in.at("dweight"))};
  rms_norm_backward(backward);
  Tensors out{{"out", forward.out_ND}, {"dx", backward.dx_ND}, {"dw", backward.dweight_D}};
  if (residual) out["sum"] = forward.sum_ND;
  return out;
}

Tensors define_rms_norm(const Tensors& in) {
  const bool residual = in.contains("delta");
  const Tensor x = residual ? in.at("x") + in.at("delta") : in.at("x");
  const Tensor rstd = at::rsqrt(at::mean(x * x, {1}, true) + kNormEps);
  Tensors out{{"out", x * rstd * in.at("weight")}};
  if (residual) out["sum"] = x;
  return out;
}

OpCase rms_norm_case(std::int64_t rows, std::int64_t columns, bool residual) {
  OpCase op;
  op.name = fmt::format("rms_norm_{}x{}{}", rows, columns, residual ? "_residual" : "");
  op.inputs = [=] {
    Tensors in;
    for (const char* name : {"x", "dout", "dsum"}) in[name] = normals(name, {rows, columns});
    if (residual) in["delta"] = normals("delta", {rows, columns});
    for (const char* name : {"weight", "dweight"}) in[name] = normals(name, {columns});
    return in;
  };
  op.wide = {"dweight"};
  op.run = run_rms_norm;
  op.oracle = define_rms_norm;
  op.losses = {{"out", "dout"}};
  if (residual) op.losses.push_back({"sum", "dsum"});
  op.gradients = {{"x", "dx", residual ? "" : "dsum"}, {"weight", "dw", "dweight"}};
  if (residual) op.gradients.push_back({"delta", "dx", ""});
  op.roundings = residual ? 4 : 2;
  op.longest_sum = std::max(rows, columns);
  return op;
}

OpCase swiglu_case(std::int64_t rows, std::int64_t columns) {
  OpCase op;
  op.name = fmt::format("swiglu_{}x{}", rows, columns);
  op.inputs = [=] {
    return Tensors{{"gate_up", normals("gate_up", {rows, 2 * columns}, 3.0)},
                   {"dout", normals("dout", {rows, columns})}};
  };
  op.run = [=](const Tensors& in) {
    const Tensor out = fresh_like(in.at("dout")), again = fresh_like(out);
    swiglu(in.at("gate_up"), out);
    const Tensor dgate_up = copied(in.at("gate_up"));
    swiglu_backward({in.at("dout"), dgate_up, again});
    return Tensors{{"out", out}, {"again", again}, {"dgate_up", dgate_up}};
  };
  op.oracle = [=](const Tensors& in) {
    const Tensor out = at::silu(in.at("gate_up").narrow(1, 0, columns)) *
                       in.at("gate_up").narrow(1, columns, columns);
    return Tensors{{"out", out}, {"again", out}};
  };
  op.losses = {{"out", "dout"}};
  op.gradients = {{"gate_up", "dgate_up", ""}};
  return op;
}

OpCase embedding_case(std::int64_t tokens, std::int64_t vocabulary, std::int64_t columns) {
  OpCase op;
  op.name = fmt::format("embedding_{}of{}x{}", tokens, vocabulary, columns);
  op.inputs = [=] {
    return Tensors{{"tokens", integers("tokens", tokens, vocabulary)},
                   {"weight", normals("weight", {vocabulary, columns})},
                   {"dout", normals("dout", {tokens, columns})},
                   {"dweight", normals("dweight", {vocabulary, columns})}};
  };
  op.wide = {"dweight"};
  op.run = [](const Tensors& in) {
    const Tensor out = fresh_like(in.at("dout")), dweight = copied(in.at("dweight"));
    embedding(in.at("tokens"), in.at("weight"), out);
    embedding_backward(in.at("tokens"), in.at("dout"), dweight);
    return Tensors{{"out", out}, {"dw", dweight}};
  };
  op.oracle = [](const Tensors& in) {
    return Tensors{{"out", at::embedding(in.at("weight"), in.at("tokens"))}};
  };
  op.losses = {{"out", "dout"}};
  op.gradients = {{"weight", "dw", "dweight"}};
  op.longest_sum = tokens;
  return op;
}

}  // namespace

std::vector<OpCase> norm_cases() {
  std::vector<OpCase> cases;
  const std::vector<std::pair<int, int>> shapes{{1, 64},    {7, 96},   {5, 33},   {0, 64},
                                                {150, 512}, {3, 4096}, {4, 2560}, {70, 1024}};
  for (const auto& [rows, columns] : shapes)
    for (const bool residual : {false, true})
      cases.push_back(rms_norm_case(rows, columns, residual));
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{1, 16}, {5, 33}, {0, 8}, {17, 352}, {3, 1536}})
    cases.push_back(swiglu_case(rows, columns));
  cases.push_back(embedding_case(1, 5, 8));
  cases.push_back(embedding_case(0, 5, 8));
  cases.push_back(embedding_case(300, 17, 33));
  cases.push_back(embedding_case(257, 1000, 512));
  return cases;
}

std::vector<OpCase> norm_shapes() {
  std::vector<OpCase> cases;
  for (const auto& [rows, columns] : edge_pairs()) {
    for (const bool residual : {false, true})
      cases.push_back(rms_norm_case(rows, columns, residual));
    cases.push_back(swiglu_case(rows, columns));
    cases.push_back(embedding_case(rows, 9, columns));
    cases.push_back(embedding_case(9, std::max<std::int64_t>(rows, 1), columns));
  }
  // Wider than registers hold at 16 bytes an access: 2048 packs of 4 and of 8.
  for (const std::int64_t columns : {8192, 8196, 16384, 16392, 20001})
    cases.push_back(rms_norm_case(3, columns, true));
  return cases;
}

}  // namespace wmtp::kernels::testing
