// The three GEMMs, into row-strided views. N rows, O outputs, I inputs.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>

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
    const Tensor wide = at::empty({rows, outputs + 8}, in.at("x").options());
    const Tensor y = wide.narrow(1, 8, outputs), dx = at::empty_like(in.at("x"));
    const Tensor dweight = in.at("dweight").clone();
    linear(in.at("x"), in.at("weight"), y);
    linear_backward_input(in.at("dy"), in.at("weight"), dx);
    linear_backward_weight(in.at("dy"), in.at("x"), dweight);
    return Tensors{{"y", y}, {"dx", dx}, {"dw", dweight}};
  };
  op.oracle = [](const Tensors& in) {
    return Tensors{{"y", at::mm(in.at("x"), in.at("weight").t())}};
  };
  op.losses = {{"y", "dy"}};
  op.gradients = {{"x", "dx", ""}, {"weight", "dw", "dweight"}};
  return op;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  return {linear_case(1, 8, 16), linear_case(0, 8, 16), linear_case(33, 40, 24),
          linear_case(64, 128, 256)};
}

}  // namespace wmtp::kernels::testing
