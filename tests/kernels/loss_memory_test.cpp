// The memory of linear_cross_entropy above its inputs and outputs is one chunk of logits, whatever
// the number of rows.
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <fstream>

#include "wmtp/kernels/linear_cross_entropy.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels {
namespace {

constexpr std::int64_t kQwenVocabulary = 151936;
constexpr double kGib = 1024.0 * 1024 * 1024;

// Peak resident memory of the process, in GiB; reset() makes it the current one.
struct PeakResident {
  static void reset() { std::ofstream("/proc/self/clear_refs") << "5"; }
  static double read() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) / (1024 * 1024);
    return 0;
  }
};

struct Problem {
  LinearCrossEntropy args;
  LinearCrossEntropyGrads grads;

  Problem(std::int64_t rows, std::int64_t features, c10::Device device, c10::ScalarType dtype) {
    const auto options = at::TensorOptions().dtype(dtype).device(device);
    const auto fp32 = options.dtype(at::kFloat);
    args.hidden_ND = at::randn({rows, features}, options);
    args.weight_VD = at::randn({kQwenVocabulary, features}, options).mul_(0.02);
    args.targets_M = at::randint(kQwenVocabulary, {rows}, options.dtype(at::kInt));
    grads.scale_M = at::full({rows}, 1.0 / static_cast<double>(rows), fp32);
    grads.dhidden_ND = at::zeros({rows, features}, options);
    grads.dweight_VD = at::zeros({kQwenVocabulary, features}, fp32);
  }
};

TEST(LossMemory, StaysUnderOneGibibyteOnTheCpu) {
  Problem problem(2048, 64, c10::Device(c10::kCPU), at::kFloat);
  PeakResident::reset();
  const double before = PeakResident::read();
  const Tensor nll_M = nll_and_grad(problem.args, problem.grads);
  EXPECT_TRUE(std::isfinite(nll_M.sum().item<double>()));
  EXPECT_LT(PeakResident::read() - before, 1.0);
}

TEST(LossMemoryOnGpu, StaysUnderOneGibibyte) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  Problem problem(16384, 1024, c10::Device(c10::kCUDA, 0), at::kBFloat16);
  const auto& services = cuda_tables().services;
  services.reset_peak_memory(0);
  const double before = static_cast<double>(services.memory(0).allocated_bytes);
  const Tensor nll_M = nll_and_grad(problem.args, problem.grads);
  EXPECT_TRUE(std::isfinite(nll_M.sum().item<double>()));
  const double extra =
      (static_cast<double>(services.memory(0).peak_allocated_bytes) - before) / kGib;
  RecordProperty("extra_gib", std::to_string(extra));
  std::cout << "gpu linear_cross_entropy 16384 rows, V 151936: " << extra
            << " GiB above inputs and outputs\n";
  EXPECT_LT(extra, 1.0);
}

}  // namespace
}  // namespace wmtp::kernels
