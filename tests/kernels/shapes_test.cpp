// Every op at the edges of what its bodies can hold, on and off aligned places: on a CPU against
// the definition, on a GPU against the CPU. One line per op and dtype says how near the bound the
// worst case came.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tests/kernels/op_matrix.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {
namespace {

constexpr double kRoundoffFp32 = 0x1p-24, kRoundoffTf32 = 0x1p-11, kRoundoffBf16 = 0x1p-9;

// Over the largest value of an output. A value rounded to the dtype errs by its unit roundoff; four
// of them per rounding: a rotation or a gate stretches an error, and two stretched ones meet in a
// sum. A sum of n terms in fp32 errs like a
// random walk of n steps, and its terms (quotients, roots, exponentials) by some roundoffs each.
double rounding_bound(const OpCase& op, DType dtype) {
  if (op.in_fp64) return 1e-12;
  const double roundoff = dtype == kBFloat16 ? kRoundoffBf16 : kRoundoffFp32;
  const double terms = std::sqrt(static_cast<double>(std::max<std::int64_t>(op.longest_sum, 1)));
  return 4 * op.roundings * roundoff + (64 + 8 * terms) * kRoundoffFp32;
}

// ATen's fp32 attention on a GPU may multiply in TF32.
double gpu_bound(const OpCase& op, DType dtype) {
  const bool tf32 = dtype == kFloat32 && op.name.starts_with("attention");
  return rounding_bound(op, dtype) + (tf32 ? 2 * kRoundoffTf32 : 0);
}

struct Family {
  const char* name;
  std::vector<OpCase> (*shapes)();
  std::size_t on_cpu = 1;  // every how many-th case a CPU takes: seconds, not a minute

  std::vector<OpCase> some() const {
    std::vector<OpCase> all = shapes(), taken;
    for (std::size_t i = 0; i < all.size(); i += on_cpu) taken.push_back(std::move(all[i]));
    return taken;
  }
};

const std::vector<Family> kFamilies{{"norm", norm_shapes},       {"rope", rope_shapes, 5},
                                    {"linear", linear_shapes},   {"attention", attention_shapes, 5},
                                    {"loss", loss_shapes},       {"optimizer", optimizer_shapes},
                                    {"dropout", dropout_shapes}, {"value", value_shapes}};

// What came nearest to its bound.
class Worst {
 public:
  void add(const OpCase& op, const Tensors& got, const Tensors& wanted, double bound) {
    ++runs_;
    for (const auto& [name, value] : wanted) {
      const double error = worst_error(got.at(name), value);
      EXPECT_LE(error, bound) << op.name << ": " << name;
      if (error / bound < ratio_) continue;
      ratio_ = error / bound;
      where_ = op.name + " " + name;
    }
  }
  void print(const char* device, const char* family, DType dtype) const {
    fmt::print("shapes {:4} {:9} {:4} {:5} runs, largest error / bound {:.3f} ({})\n", device,
               family, name_of(dtype), runs_, ratio_, where_);
  }

 private:
  int runs_ = 0;
  double ratio_ = 0;
  std::string where_ = "all exact";
};

class Shapes : public ::testing::TestWithParam<Family> {
  const OneThread threads_;
};

TEST_P(Shapes, Fp64EqualsAutograd) {
  for (const OpCase& op : GetParam().some())
    if (!op.dear_oracle) expect_equals_autograd(op);
}

TEST_P(Shapes, Fp32EqualsFp64) {
  Worst worst;
  for (const OpCase& op : GetParam().some()) {
    const Tensors wanted = op.run(rounded_inputs(op, kFloat32));
    for (const bool off : {false, true}) {
      std::optional<OffBoundary> place;
      if (off) place.emplace();
      worst.add(op, op.run(inputs_of(op, kFloat32, c10::kCPU)), wanted,
                rounding_bound(op, kFloat32));
    }
  }
  worst.print("cpu", GetParam().name, kFloat32);
}

// Only there where WMTP_TEST_CUDA=1.
class ShapesOnGpu : public ::testing::TestWithParam<Family> {
  const OneThread threads_;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ShapesOnGpu);

// A fault of one case is told and the next one tried; most faults of a GPU end all later calls, so
// a few are enough.
TEST_P(ShapesOnGpu, EqualsCpu) {
  int faults = 0;
  for (const DType dtype : {kFloat32, kBFloat16}) {
    Worst worst;
    for (const OpCase& op : GetParam().shapes()) {
      const Tensors wanted = op.run(rounded_inputs(op, dtype));
      for (const bool off : {false, true}) {
        std::optional<OffBoundary> place;
        if (off) place.emplace();
        try {
          worst.add(op, op.run(inputs_of(op, dtype, c10::Device(c10::kCUDA, 0))), wanted,
                    gpu_bound(op, dtype));
        } catch (const std::exception& error) {
          ADD_FAILURE() << op.name << " " << name_of(dtype) << (off ? " off" : " on")
                        << " a boundary: " << std::string(error.what()).substr(0, 300);
          if (++faults == 20) return;
        }
      }
    }
    worst.print("gpu", GetParam().name, dtype);
  }
}

std::string name_of_family(const ::testing::TestParamInfo<Family>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, Shapes, ::testing::ValuesIn(kFamilies), name_of_family);
INSTANTIATE_TEST_SUITE_P(All, ShapesOnGpu,
                         ::testing::ValuesIn(cuda_loaded() ? kFamilies : std::vector<Family>{}),
                         name_of_family);

}  // namespace
}  // namespace wmtp::kernels::testing
