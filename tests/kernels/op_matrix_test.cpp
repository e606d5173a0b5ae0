#include "tests/kernels/op_matrix.h"

#include <ATen/Parallel.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "wmtp/core/rng.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {

Tensor normals(const std::string& name, std::vector<std::int64_t> sizes, double scale) {
  Tensor values = at::empty(sizes, at::TensorOptions().dtype(kFloat64));
  RngStream stream(7, name);
  double* data = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); i += 4) {
    const auto four = four_normals(stream.next());
    for (std::int64_t j = i; j < std::min(i + 4, values.numel()); ++j)
      data[j] = scale * four[j - i];
  }
  return values;
}

Tensor integers(const std::string& name, std::int64_t size, std::int64_t below) {
  Tensor values = at::empty({size}, at::TensorOptions().dtype(kInt32));
  RngStream stream(7, name);
  for (std::int64_t i = 0; i < size; ++i)
    values.data_ptr<std::int32_t>()[i] = static_cast<std::int32_t>(stream.below(below));
  return values;
}

double worst_error(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0;
  const Tensor x = a.to(c10::kCPU, kFloat64), y = b.to(c10::kCPU, kFloat64);
  if (!x.isfinite().all().item<bool>()) return std::numeric_limits<double>::infinity();
  const double largest = y.abs().max().item<double>();
  return (x - y).abs().max().item<double>() / std::max(largest, 0.05);
}

void PrintTo(const OpCase& op, std::ostream* out) {
  *out << op.name;
}

bool bit_equal(const Tensor& a, const Tensor& b) {
  return at::equal(a.cpu(), b.cpu());
}

namespace {

std::int64_t off_boundary = 0;

}  // namespace

OffBoundary::OffBoundary() {
  off_boundary = 1;
}
OffBoundary::~OffBoundary() {
  off_boundary = 0;
}

OneThread::OneThread() : before_(at::get_num_threads()) {
  at::set_num_threads(1);
}
OneThread::~OneThread() {
  at::set_num_threads(before_);
}

Tensor fresh(c10::IntArrayRef sizes, const at::TensorOptions& options) {
  const std::int64_t size = c10::multiply_integers(sizes);
  return at::empty({size + off_boundary}, options).narrow(0, off_boundary, size).view(sizes);
}
Tensor fresh_like(const Tensor& tensor) {
  return fresh(tensor.sizes(), tensor.options());
}
Tensor copied(const Tensor& tensor) {
  return fresh_like(tensor).copy_(tensor);
}

std::vector<std::pair<std::int64_t, std::int64_t>> edge_pairs() {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs{{0, 9}};
  for (const std::int64_t edge : kEdges) {
    pairs.push_back({edge, 9});
    pairs.push_back({9, edge});
    if (edge < 1000) pairs.push_back({edge, edge});
  }
  return pairs;
}

Tensors inputs_of(const OpCase& op, DType dtype, c10::Device device) {
  Tensors inputs;
  for (const auto& [name, value] : op.inputs()) {
    const bool wide = std::find(op.wide.begin(), op.wide.end(), name) != op.wide.end();
    const DType target = wide && dtype != kFloat64 ? kFloat32 : dtype;
    inputs[name] = copied(value.is_floating_point() ? value.to(device, target) : value.to(device));
  }
  return inputs;
}

Tensors rounded_inputs(const OpCase& op, DType dtype) {
  Tensors inputs = inputs_of(op, dtype, c10::kCPU);
  for (auto& [name, value] : inputs)
    if (value.is_floating_point()) value = value.to(kFloat64);
  return inputs;
}

void expect_equals_autograd(const OpCase& op) {
  Tensors inputs = inputs_of(op, kFloat64, c10::kCPU);
  const Tensors got = op.run(inputs);
  for (const auto& gradient : op.gradients) inputs[gradient.input].requires_grad_(true);
  const Tensors wanted = op.oracle(inputs);
  Tensor loss = at::zeros({}, at::TensorOptions().dtype(kFloat64));
  for (const auto& [name, value] : wanted)
    EXPECT_LE(worst_error(got.at(name), value.detach()), 1e-10) << op.name << ": " << name;
  for (const auto& [output, weight] : op.losses)
    loss = loss + at::sum(wanted.at(output) * inputs.at(weight));
  if (!op.gradients.empty()) loss.backward();
  for (const auto& gradient : op.gradients) {
    Tensor sum = inputs[gradient.input].grad();
    if (!sum.defined()) sum = at::zeros_like(inputs[gradient.input]);
    if (!gradient.start.empty()) sum = sum + inputs[gradient.start];
    EXPECT_LE(worst_error(got.at(gradient.output), sum), 1e-10)
        << op.name << ": " << gradient.output;
  }
}

namespace {

double loss_of(const OpCase& op, const Tensors& inputs) {
  const Tensors outputs = op.run(inputs);
  double loss = 0;
  for (const auto& [output, weight] : op.losses)
    loss += at::sum(outputs.at(output) * inputs.at(weight)).item<double>();
  return loss;
}

void expect_close(const Tensors& got, const Tensors& wanted, double tolerance, const char* what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, value] : wanted)
    EXPECT_LE(worst_error(got.at(name), value), tolerance) << what << ": " << name;
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> all;
  for (const auto& make : {norm_cases, rope_cases, linear_cases, attention_cases, loss_cases,
                           optimizer_cases, dropout_cases, value_cases})
    for (OpCase& op : make()) all.push_back(std::move(op));
  return all;
}

class OpMatrix : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpMatrix, Fp64EqualsAutograd) {
  expect_equals_autograd(GetParam());
}

TEST_P(OpMatrix, Fp64EqualsFiniteDifferences) {
  const OpCase& op = GetParam();
  const Tensors inputs = inputs_of(op, kFloat64, c10::kCPU);
  if (op.gradients.empty() || inputs.at(op.gradients.front().input).numel() == 0) return;
  const Tensors got = op.run(inputs);
  for (const auto& gradient : op.gradients) {
    const Tensor direction =
        normals("direction/" + gradient.input, inputs.at(gradient.input).sizes().vec());
    constexpr double kStep = 1e-6;
    Tensors moved = inputs;
    moved[gradient.input] = inputs.at(gradient.input) + kStep * direction;
    const double above = loss_of(op, moved);
    moved[gradient.input] = inputs.at(gradient.input) - kStep * direction;
    const double numeric = (above - loss_of(op, moved)) / (2 * kStep);
    Tensor sum = got.at(gradient.output);
    if (!gradient.start.empty()) sum = sum - inputs.at(gradient.start);
    const double analytic = at::sum(sum * direction).item<double>();
    const double size = at::sum((sum * direction).abs()).item<double>();
    EXPECT_NEAR(numeric, analytic, 1e-6 * size + 1e-8) << gradient.output;
  }
}

TEST_P(OpMatrix, Fp32EqualsFp64) {
  const OpCase& op = GetParam();
  expect_close(op.run(inputs_of(op, kFloat32, c10::kCPU)), op.run(rounded_inputs(op, kFloat32)),
               op.tolerance_fp32, "fp32");
}

TEST_P(OpMatrix, RerunsAreBitEqual) {
  const OpCase& op = GetParam();
  const Tensors first = op.run(inputs_of(op, kFloat32, c10::kCPU));
  const Tensors second = op.run(inputs_of(op, kFloat32, c10::kCPU));
  for (const auto& [name, value] : first) EXPECT_TRUE(bit_equal(value, second.at(name))) << name;
}

// Only there where WMTP_TEST_CUDA=1.
class OpMatrixOnGpu : public ::testing::TestWithParam<OpCase> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpMatrixOnGpu);

TEST_P(OpMatrixOnGpu, RerunsAreBitEqual) {
  const OpCase& op = GetParam();
  if (!op.deterministic_on_gpu) GTEST_SKIP() << "dQ of the fast attention is not";
  const c10::Device gpu(c10::kCUDA, 0);
  const Tensors first = op.run(inputs_of(op, kBFloat16, gpu)),
                second = op.run(inputs_of(op, kBFloat16, gpu));
  for (const auto& [name, value] : first) EXPECT_TRUE(bit_equal(value, second.at(name))) << name;
}

TEST_P(OpMatrixOnGpu, EqualsCpu) {
  const OpCase& op = GetParam();
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const Tensors got = op.run(inputs_of(op, dtype, c10::Device(c10::kCUDA, 0)));
    const Tensors wanted = op.run(rounded_inputs(op, dtype));
    const double tolerance = dtype == kFloat32 ? op.tolerance_fp32_on_gpu : op.tolerance_bf16;
    for (const auto& [name, value] : wanted) {
      const double error = worst_error(got.at(name), value);
      EXPECT_LE(error, tolerance) << name_of(dtype) << ": " << name;
      fmt::print("gpu {:44} {:12} {} error {:.1e} of {:.0e}\n", op.name, name, name_of(dtype),
                 error, tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpMatrix, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(All, OpMatrixOnGpu,
                         ::testing::ValuesIn(cuda_loaded() ? all_cases() : std::vector<OpCase>{}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace wmtp::kernels::testing
