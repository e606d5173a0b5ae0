// The plan before its slack against peaks that a GPU's allocator has reported (benchmarks/gpu.md):
// the same settings, within 5 % and half of the last digit that was written down.
#include <gtest/gtest.h>

#include "wmtp/model/presets.h"
#include "wmtp/run/plan/memory_plan.h"

namespace wmtp::run {
namespace {

struct Recorded {
  const char* what;
  const char* preset;
  std::int64_t tokens;
  model::Recompute recompute;
  DType param, master;
  bool offload;
  int world;
  double gib, digit;
};

constexpr auto kNone = model::Recompute::none, kWhole = model::Recompute::block;

const Recorded kRecorded[] = {
    {"Qwen3-0.6B, 8 x 1024", "qwen3-0.6b", 8192, kNone, kBFloat16, kFloat32, false, 1, 19.5, 0.1},
    {"Qwen3-0.6B, 1 x 8192", "qwen3-0.6b", 8192, kNone, kBFloat16, kFloat32, false, 1, 19.46, 0.01},
    {"6.7B, recompute", "llama-mtp-7b", 4096, kWhole, kBFloat16, kFloat32, false, 1, 103.5, 0.1},
    {"6.7B, kept", "llama-mtp-7b", 4096, kNone, kBFloat16, kFloat32, false, 1, 116.7, 0.1},
    {"6.7B, four ranks", "llama-mtp-7b", 1024, kWhole, kBFloat16, kFloat32, false, 4, 29.6, 0.1},
    {"small, fp32", "small", 1024, kNone, kFloat32, kFloat32, false, 1, 1.26, 0.01},
    {"small, fp32, offload", "small", 1024, kNone, kFloat32, kFloat32, true, 1, 0.63, 0.01},
    {"small, bf16", "small", 1024, kNone, kBFloat16, kFloat32, false, 1, 1.18, 0.01},
    {"small, bf16, offload", "small", 1024, kNone, kBFloat16, kFloat32, true, 1, 0.41, 0.01},
    {"small, fp16", "small", 1024, kNone, kFloat16, kFloat32, false, 1, 1.18, 0.01},
    {"small, bf16_sr", "small", 1024, kNone, kBFloat16, kBFloat16, false, 1, 0.75, 0.01},
    {"small, fp32, offload, 2", "small", 512, kNone, kFloat32, kFloat32, true, 2, 0.48, 0.01},
};

double planned_gib(const MemoryRequest& request) {
  return static_cast<double>(plan_memory(request).total_bytes()) / (1 << 30);
}

TEST(RecordedMemory, PeaksOfTheAllocatorOnAGpu) {
  for (const Recorded& one : kRecorded) {
    MemoryRequest request;
    request.model = model::preset(one.preset);
    request.tokens = one.tokens;
    request.recompute = one.recompute;
    request.world = one.world;
    request.parallel.param_dtype = one.param;
    request.parallel.master_dtype = one.master;
    request.parallel.cpu_offload = one.offload;
    request.parallel.device = c10::Device(c10::kCUDA, 0);
    EXPECT_NEAR(planned_gib(request), one.gib, 0.05 * one.gib + one.digit / 2) << one.what;
  }
}

TEST(RecordedMemory, ACriticOnAFrozenTrunk) {
  MemoryRequest request;
  request.model = model::backbone(model::preset("llama-mtp-7b"));
  request.tokens = 4096;
  request.recompute = kWhole;
  request.frozen = true;
  request.heads = false;
  request.value_head = model::ValueHeadType::mlp;
  request.parallel.param_dtype = kBFloat16;
  request.parallel.device = c10::Device(c10::kCUDA, 0);
  EXPECT_NEAR(planned_gib(request), 11.5, 0.05 * 11.5 + 0.05);
}

}  // namespace
}  // namespace wmtp::run
