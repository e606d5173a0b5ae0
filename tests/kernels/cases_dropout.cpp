// Dropout: N tokens of three documents, I features.
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "tests/kernels/op_matrix.h"
#include "wmtp/core/rng.h"
#include "wmtp/kernels/dropout.h"

namespace wmtp::kernels::testing {
namespace {

constexpr double kP = 0.3;
constexpr std::uint64_t kSeed = 0x123456789abcdefull;

DropoutMask mask_of(const Tensors& in) {
  return {kP, kSeed, in.at("streams"), in.at("document"), in.at("position")};
}

// What the header says, one element at a time.
Tensor kept(const Tensors& in) {
  const Tensor x_NI = in.at("x");
  const Tensor keep_NI = at::empty(x_NI.sizes(), at::TensorOptions().dtype(kFloat64));
  const std::int64_t columns = x_NI.size(1);
  for (std::int64_t n = 0; n < x_NI.size(0); ++n) {
    const std::int32_t document = in.at("document").data_ptr<std::int32_t>()[n];
    const auto stream =
        static_cast<std::uint64_t>(in.at("streams").data_ptr<std::int64_t>()[document]);
    const std::int64_t position = in.at("position").data_ptr<std::int32_t>()[n];
    for (std::int64_t i = 0; i < columns; ++i) {
      const auto e = static_cast<std::uint64_t>(position * columns + i);
      const double u = (philox4x32_10(kSeed, stream, e / 4)[e % 4] + 0.5) * 0x1p-32;
      keep_NI.data_ptr<double>()[n * columns + i] = u >= kP ? 1 / (1 - kP) : 0;
    }
  }
  return keep_NI;
}

OpCase dropout_case(std::int64_t rows, std::int64_t columns) {
  OpCase op;
  op.name = fmt::format("dropout_{}x{}", rows, columns);
  op.inputs = [=] {
    Tensor document = at::empty({rows}, at::kInt), position = at::empty({rows}, at::kInt);
    for (std::int64_t n = 0; n < rows; ++n) {
      document.data_ptr<std::int32_t>()[n] = static_cast<std::int32_t>(n % 3);
      position.data_ptr<std::int32_t>()[n] = static_cast<std::int32_t>(5 + n / 3);
    }
    // Far from zero, so that a wrong mask is a large error everywhere.
    return Tensors{
        {"x", normals("x", {rows, columns}).abs() + 1.0},
        {"dout", normals("dout", {rows, columns}).abs() + 1.0},
        {"document", document},
        {"position", position},
        {"streams",
         at::tensor({std::int64_t{7}, std::int64_t{-5}, std::int64_t{1} << 60}, at::kLong)}};
  };
  op.run = [](const Tensors& in) {
    const Tensor out = fresh_like(in.at("x")), dx = copied(in.at("dout"));
    dropout(in.at("x"), mask_of(in), out);
    dropout(dx, mask_of(in), dx);
    return Tensors{{"out", out}, {"dx", dx}};
  };
  op.oracle = [](const Tensors& in) { return Tensors{{"out", in.at("x") * kept(in)}}; };
  op.losses = {{"out", "dout"}};
  op.gradients = {{"x", "dx", ""}};
  return op;
}

}  // namespace

std::vector<OpCase> dropout_cases() {
  return {dropout_case(1, 1), dropout_case(7, 3), dropout_case(12, 30), dropout_case(9, 64),
          dropout_case(0, 8)};
}

std::vector<OpCase> dropout_shapes() {
  std::vector<OpCase> cases;
  for (const auto& [rows, columns] : edge_pairs()) cases.push_back(dropout_case(rows, columns));
  return cases;
}

}  // namespace wmtp::kernels::testing
