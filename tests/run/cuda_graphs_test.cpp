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

void check(const training::AssembleOptions& options, int world = 1, bool selects = false) {
  check_cuda_graphs("graphs", {options, world, selects});
}

TEST(CudaGraphs, AreOffUnlessTheyAreAskedFor) {
  config::Runtime runtime;
  EXPECT_FALSE(wants_cuda_graphs(runtime));
  runtime.cuda_graphs = config::AutoSwitch::on;
  EXPECT_TRUE(wants_cuda_graphs(runtime));
}

TEST(CudaGraphs, HoldStepsOfEveryStageAndSelectionsOfOneRank) {
  training::AssembleOptions options = on_one_gpu();
  EXPECT_NO_THROW(check(options));
  options.transformer.lora = model::LoraConfig{.dropout = 0.2};
  EXPECT_NO_THROW(check(options));
  EXPECT_NO_THROW(check(options, 2));
  options.transformer.lora.reset();
  EXPECT_NO_THROW(check(options, 1, /*selects=*/true));
  EXPECT_WMTP_ERROR(check(options, 2, /*selects=*/true), ErrorKind::config,
                    "graphs with rows that are selected over 2 ranks, but");
  options.parallel.device = c10::Device(c10::kCPU);
  EXPECT_WMTP_ERROR(check(options), ErrorKind::config, "graphs on a CPU, but");
  options.step.cuda_graphs = false;
  EXPECT_NO_THROW(check(options, 2, /*selects=*/true));
}

// Where a rank holds all of a gradient it is summed where it lies, which is in fp32.
TEST(CudaGraphs, RefuseGradientsThatAreCopiedToBeSummed) {
  using parallel::Strategy;
  for (const auto strategy : {Strategy::no_shard, Strategy::hybrid_shard, Strategy::full_shard,
                              Strategy::shard_grad_op}) {
    training::AssembleOptions options = on_one_gpu();
    options.parallel.strategy = strategy;
    EXPECT_NO_THROW(check(options, 4));
    options.parallel.reduce_dtype = kBFloat16;
    EXPECT_NO_THROW(check(options));
    if (strategy == Strategy::no_shard || strategy == Strategy::hybrid_shard)
      EXPECT_WMTP_ERROR(check(options, 4), ErrorKind::config,
                        "graphs with gradients that 4 ranks sum in bf16 under ");
    else
      EXPECT_NO_THROW(check(options, 4));
  }
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
