// Expected speeds against recorded ones, and the laws that any expectation keeps.
#include "wmtp/run/plan/speed/expected_speed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/tolerance.h"
#include "wmtp/core/error.h"
#include "wmtp/model/presets.h"
#include "wmtp/run/plan/speed/calibrate.h"

namespace wmtp::run {
namespace {

constexpr double kGoal = 0.15;  // of what `wmtp plan` promises
const c10::Device kGpu(c10::DeviceType::CUDA, 0);

SpeedRequest on_gpu(const char* preset, int batch, int seq,
                    model::Recompute recompute = model::Recompute::none) {
  SpeedRequest request;
  request.shape.model = model::preset(preset);
  request.shape.parallel.param_dtype = kBFloat16;
  request.shape.parallel.device = kGpu;
  request.shape.recompute = recompute;
  request.shape.tokens = std::int64_t{batch} * seq;
  request.span = seq;
  return request;
}

SpeedRequest with_lora(SpeedRequest request, std::int64_t rank) {
  model::LoraConfig lora;
  lora.rank = rank;
  request.shape.lora = model::checked(lora, request.shape.model);
  return request;
}

SpeedRequest with_dtypes(SpeedRequest request, DType master, DType compute) {
  request.shape.parallel.master_dtype = master;
  request.shape.parallel.param_dtype = compute;
  return request;
}

SpeedRequest frozen_critic(SpeedRequest request) {
  request.shape.model = model::backbone(request.shape.model);
  request.shape.heads = false;
  request.shape.frozen = true;
  request.shape.value_head = model::ValueHeadType::mlp;
  return request;
}

SpeedRequest on_ranks(SpeedRequest request, parallel::Strategy strategy, int world) {
  request.shape.parallel.strategy = strategy;
  request.shape.world = world;
  return request;
}

double rate(const SpeedRequest& request, const char* device = "h200") {
  return expected_speed(request, device_model(device)).tokens_per_s_rank;
}

// Tokens/s of one H200: benchmarks/gpu.md and its runs with 2048 and 8192 tokens a row.
TEST(ExpectedSpeed, IsNearWhatAnH200Measured) {
  constexpr auto kLight = model::Recompute::light, kBlock = model::Recompute::block;
  const SpeedRequest seven = on_gpu("llama-mtp-7b", 4, 2048, kLight);
  const struct {
    const char* what;
    SpeedRequest request;
    double tokens_per_s;
  } rows[] = {
      {"6.7B 4 x 2048 light", seven, 12'200},
      {"6.7B 4 x 2048 light, bf16_sr", with_dtypes(seven, kBFloat16, kBFloat16), 12'600},
      {"6.7B 4 x 1024 none", on_gpu("llama-mtp-7b", 4, 1024), 11'502},
      {"6.7B 4 x 1024 block", on_gpu("llama-mtp-7b", 4, 1024, kBlock), 9'426},
      {"6.7B 4 x 2048 LoRA 64", with_lora(on_gpu("llama-mtp-7b", 4, 2048), 64), 18'800},
      {"6.7B 4 x 1024 critic", frozen_critic(on_gpu("llama-mtp-7b", 4, 1024)), 52'000},
      {"0.6B 16 x 2048", on_gpu("qwen3-0.6b", 16, 2048), 107'700},
      {"0.6B 8 x 1024", on_gpu("qwen3-0.6b", 8, 1024), 113'330},
      {"0.6B 2 x 8192", on_gpu("qwen3-0.6b", 2, 8192), 70'400},
      {"0.6B 1 x 8192", on_gpu("qwen3-0.6b", 1, 8192), 69'046},
      {"0.6B 16 x 2048 LoRA 16", with_lora(on_gpu("qwen3-0.6b", 16, 2048), 16), 124'500},
      {"small 4 x 256", on_gpu("small", 4, 256), 172'000},
      {"small 4 x 256 fp32", with_dtypes(on_gpu("small", 4, 256), kFloat32, kFloat32), 59'000},
  };
  for (const auto& row : rows) {
    const double expected = rate(row.request);
    EXPECT_WITHIN(std::abs(expected / row.tokens_per_s - 1), kGoal)
        << row.what << ": " << expected << " expected, " << row.tokens_per_s << " measured";
  }
}

}  // namespace
}  // namespace wmtp::run
