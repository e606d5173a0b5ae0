// The three GEMMs, into row-strided views. N rows, O outputs, I inputs.
#include <ATen/ops/mm.h>
#include <fmt/format.h>

#include <algorithm>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/gemm.h"

namespace wmtp::kernels::testing {
namespace {

OpCase linear_case(std::int64_t rows, std::int64_t outputs, std::int64_t inputs) {
  OpCase op;
  op.name = fmt::format("linear_{}x{}x{}", rows, outputs, inputs);
  op.inputs = [=] {
    return Tensors{{"x", normals("x", {rows, inputs})},
                   {"weight", normals("weight", {outputs, inputs})},
                   {"dy", normals("dy", {rows, outputs})},
                   {"dweight", normals("dweight", {outputs, inputs})}};
  };
  op.wide = {"dweight"};
  op.run = [=](const Tensors& in) {
    // y is the right part of a wider matrix, as q|k|v and gate|up are.
    const Tensor wide = fresh({rows, outputs + 8}, in.at("x").options());
    const Tensor y = wide.narrow(1, 8, outputs), dx = fresh_like(in.at("x"));
    const Tensor dweight = copied(in.at("dweight"));
    linear(in.at("x"), in.at("weight"), y);
    linear_backward_input(in.at("dy"), in.at("weight"), dx);
    linear_backward_weight(in.at("dy"), in.at("x"), dweight);
    const Tensor first = fresh_like(dweight);
    linear_backward_weight(in.at("dy"), in.at("x"), first, {.adds = false});
    return Tensors{{"y", y}, {"dx", dx}, {"dw", dweight}, {"dw_first", first}};
  };
  op.oracle = [](const Tensors& in) {
    return Tensors{{"y", at::mm(in.at("x"), in.at("weight").t())}};
  };
  op.losses = {{"y", "dy"}};
  op.gradients = {{"x", "dx", ""}, {"weight", "dw", "dweight"}, {"weight", "dw_first", ""}};
  op.roundings = 2;
  op.longest_sum = std::max({rows, outputs, inputs});
  return op;
}

constexpr double kAlpha = 0.25;

// The low-rank paths: both add to what is there.
OpCase linear_add_case(std::int64_t rows, std::int64_t outputs, std::int64_t inputs) {
  OpCase op = linear_case(rows, outputs, inputs);
  op.name = fmt::format("linear_add_{}x{}x{}", rows, outputs, inputs);
  op.inputs = [=] {
    return Tensors{{"x", normals("x", {rows, inputs})},
                   {"weight", normals("weight", {outputs, inputs})},
                   {"dy", normals("dy", {rows, outputs})},
                   {"y0", normals("y0", {rows, outputs})},
                   {"dx0", normals("dx0", {rows, inputs})}};
  };
  op.wide = {};
  op.run = [](const Tensors& in) {
    const Tensor y = copied(in.at("y0")), dx = copied(in.at("dx0"));
    linear_add(in.at("x"), in.at("weight"), y, kAlpha);
    linear_backward_input_add(in.at("dy"), in.at("weight"), dx, kAlpha);
    return Tensors{{"y", y}, {"dx", dx}};
  };
  op.oracle = [](const Tensors& in) {
    return Tensors{{"y", in.at("y0") + kAlpha * at::mm(in.at("x"), in.at("weight").t())}};
  };
  op.gradients = {{"x", "dx", "dx0"}};
  return op;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  return {linear_case(1, 8, 16), linear_case(0, 8, 16), linear_case(33, 40, 24),
          linear_case(64, 128, 256)};
}

std::vector<OpCase> linear_shapes() {
  std::vector<OpCase> cases{linear_case(0, 9, 9), linear_add_case(0, 9, 9)};
  const auto add = [&](std::int64_t rows, std::int64_t outputs, std::int64_t inputs) {
    cases.push_back(linear_case(rows, outputs, inputs));
    cases.push_back(linear_add_case(rows, outputs, inputs));
  };
  for (const std::int64_t edge : kEdges) {
    add(edge, 9, 9), add(9, edge, 9), add(9, 9, edge);
    if (edge < 1000) add(edge, edge, edge);
  }
  return cases;
}

}  // namespace wmtp::kernels::testing
