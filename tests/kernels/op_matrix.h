// The op-matrix: every op of kernels/ is registered here once (cases_*_test.cpp) and
// op_matrix_test.cpp holds each case to all checks: fp64 against autograd and finite differences,
// fp32 against fp64, reruns bit for bit, and on a GPU fp32 and bf16 against the CPU.
#pragma once
#include <ATen/TensorOperators.h>

#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels::testing {

using Tensors = std::map<std::string, Tensor>;

struct OpCase {
  std::string name;
  // Floating inputs are fp64 and change to the dtype under test; those whose name is in `wide` are
  // statistics or masters and stay fp32 where the dtype under test is narrower.
  std::function<Tensors()> inputs;
  std::vector<std::string> wide;
  // The op, forward and backward, on whatever dtype and device the inputs have.
  std::function<Tensors(const Tensors&)> run;
  // The forward outputs written with ATen's differentiable operators.
  std::function<Tensors(const Tensors&)> oracle;
  // loss = sum over (output, input) of <output, input>: the upstream gradients.
  std::vector<std::pair<std::string, std::string>> losses;
  // (differentiable input, output that holds its gradient, input the gradient was added to or "").
  struct Gradient {
    std::string input, output, start;
  };
  std::vector<Gradient> gradients;
  double tolerance_fp32 = 2e-5, tolerance_fp32_on_gpu = 2e-5, tolerance_bf16 = 2e-2;
  bool deterministic_on_gpu = true;
  // For rounding_bound: how many values on the way to an output are rounded to the dtype, the terms
  // of the longest sum, and whether all is computed in fp64 whatever the dtype.
  int roundings = 1;
  std::int64_t longest_sum = 1;
  bool in_fp64 = false;
  bool dear_oracle = false;  // the definition takes seconds: the fp64 body stands for it
};

void PrintTo(const OpCase& op, std::ostream* out);  // for gtest's messages

std::vector<OpCase> norm_cases();
std::vector<OpCase> rope_cases();
std::vector<OpCase> linear_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> loss_cases();
std::vector<OpCase> optimizer_cases();
std::vector<OpCase> dropout_cases();
std::vector<OpCase> value_cases();

// The same ops at the edges of what their bodies on a GPU can hold (shapes_test.cpp).
std::vector<OpCase> norm_shapes();
std::vector<OpCase> rope_shapes();
std::vector<OpCase> linear_shapes();
std::vector<OpCase> attention_shapes();
std::vector<OpCase> loss_shapes();
std::vector<OpCase> optimizer_shapes();
std::vector<OpCase> dropout_shapes();
std::vector<OpCase> value_shapes();

// Around one element, one pack of 16 bytes, four warps, and more than a block holds in registers.
inline const std::vector<std::int64_t> kEdges{1, 7, 8, 9, 127, 129, 4097};
// Every edge against 9 in both places, and with itself where that stays small; no rows.
std::vector<std::pair<std::int64_t, std::int64_t>> edge_pairs();

// While one lives, tensors of the cases begin one element behind an aligned place.
class OffBoundary {
 public:
  OffBoundary();
  ~OffBoundary();
  OffBoundary(const OffBoundary&) = delete;
  OffBoundary& operator=(const OffBoundary&) = delete;
};
// While one lives, ops run on one thread: regions of a few elements cost more than they do where
// the cores are busy.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};
Tensor fresh(c10::IntArrayRef sizes, const at::TensorOptions& options);  // contiguous, unwritten
Tensor fresh_like(const Tensor& tensor);
Tensor copied(const Tensor& tensor);

// Standard normals of the named stream, fp64 on the CPU.
Tensor normals(const std::string& name, std::vector<std::int64_t> sizes, double scale = 1.0);
Tensor integers(const std::string& name, std::int64_t size, std::int64_t below);  // int32

// |a - b| at worst, over the largest |b| (or 0.05, if that is larger); NaN or a different shape is
// infinite.
double worst_error(const Tensor& a, const Tensor& b);
bool bit_equal(const Tensor& a, const Tensor& b);

Tensors inputs_of(const OpCase& op, DType dtype, c10::Device device);
// The inputs as `dtype` holds them, in fp64 on the CPU: so that only the op's own error is
// measured.
Tensors rounded_inputs(const OpCase& op, DType dtype);
// The fp64 body against the oracle and its gradients.
void expect_equals_autograd(const OpCase& op);

}  // namespace wmtp::kernels::testing
