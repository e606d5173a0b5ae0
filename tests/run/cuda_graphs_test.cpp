#include "wmtp/run/plan/kernels/cuda_graphs.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/model/lora.h"

namespace wmtp::run {
namespace {

training::AssembleOptions on_one_gpu() {
  training::AssembleOptions options;
  options.step.cuda_graphs = true;
  options.parallel.device = c10::Device(c10::kCUDA, 0);
  options.parallel.param_dtype = kBFloat16;
  return options;
}

void check(const training::AssembleOptions& options, std::string_view stage = "baseline",
           int world = 1) {
  check_cuda_graphs("graphs", {options, stage, world});
}

TEST(CudaGraphs, AreOffUnlessTheyAreAskedFor) {
  config::Runtime runtime;
  EXPECT_FALSE(wants_cuda_graphs(runtime));
  runtime.cuda_graphs = config::AutoSwitch::on;
  EXPECT_TRUE(wants_cuda_graphs(runtime));
}

TEST(CudaGraphs, HoldOneRanksStepOfEveryStage) {
  training::AssembleOptions options = on_one_gpu();
  EXPECT_NO_THROW(check(options));
  options.transformer.lora = model::LoraConfig{.dropout = 0.2};
  EXPECT_NO_THROW(check(options));
  EXPECT_WMTP_ERROR(check(options, "baseline", 2), ErrorKind::config,
                    "graphs with 2 ranks, but a graph holds the compute of one");
  for (const char* stage : {"critic", "verifiable", "rho1"}) {
    EXPECT_NO_THROW(check(options, stage));
    EXPECT_WMTP_ERROR(
        check(options, stage, 2), ErrorKind::config,
        std::string("graphs in stage ") + stage + " with 2 ranks, but only steps of one");
  }
  options.parallel.device = c10::Device(c10::kCPU);
  EXPECT_WMTP_ERROR(check(options), ErrorKind::config, "graphs on a CPU, but");
  options.step.cuda_graphs = false;
  EXPECT_NO_THROW(check(options, "rho1", 2));
}

TEST(CudaGraphs, RefuseWhatTheHostDecidesStepByStep) {
  const auto refused = [](const char* fact, const auto& change) {
    training::AssembleOptions options = on_one_gpu();
    change(options);
    EXPECT_WMTP_ERROR(check(options), ErrorKind::config, fact);
  };
  using Options = training::AssembleOptions;
  refused("with cpu_offload, but", [](Options& o) { o.parallel.cpu_offload = true; });
  refused("with fp16, but", [](Options& o) { o.parallel.param_dtype = kFloat16; });
  refused("with fp16, but", [](Options& o) { o.loss_scale.emplace(); });
  refused("with float8, but",
          [](Options& o) { o.transformer.float8 = kernels::Float8Recipe::rowwise; });
  refused("with a base in NF4, but", [](Options& o) { o.quantize = true; });
  refused("with frozen weights in fp32 and compute in bf16, but", [](Options& o) {
    o.transformer.lora = model::LoraConfig{};
    o.parallel.frozen_dtype = kFloat32;
  });
  refused("with frozen weights in fp32 and compute in bf16, but", [](Options& o) {
    o.frozen = true;
    o.parallel.frozen_dtype = kFloat32;
  });
}

}  // namespace
}  // namespace wmtp::run
