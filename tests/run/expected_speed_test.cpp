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

SpeedRequest offloaded(SpeedRequest request) {
  request.shape.parallel.cpu_offload = true;
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
      {"small 4 x 256 offload", offloaded(on_gpu("small", 4, 256)), 31'600},
  };
  for (const auto& row : rows) {
    const double expected = rate(row.request);
    EXPECT_WITHIN(std::abs(expected / row.tokens_per_s - 1), kGoal)
        << row.what << ": " << expected << " expected, " << row.tokens_per_s << " measured";
  }
}

TEST(ExpectedSpeed, PartsAddUpToTheStep) {
  SpeedRequest request =
      on_ranks(on_gpu("llama-mtp-7b", 4, 2048), parallel::Strategy::full_shard, 16);
  request.micro_batches = 2;
  const ExpectedSpeed speed = expected_speed(request, device_model("h200"));
  double sum = 0;
  for (const ExpectedSpeed::Part& part : speed.parts) {
    EXPECT_GT(part.seconds, 0) << part.what;
    sum += part.seconds;
  }
  EXPECT_WITHIN(std::abs(sum / speed.step_s - 1), 1e-6);  // of parts that are left out as too small
  EXPECT_EQ(speed.tokens_per_s, 16 * speed.tokens_per_s_rank);
  EXPECT_WITHIN(std::abs(speed.tokens_per_s_rank * speed.step_s / (2 * 4 * 2048) - 1), 1e-12);
  EXPECT_WITHIN(std::abs(speed.model_flops_per_token / 1e9 - 43.612373), 1e-6);  // run_flops_test
  EXPECT_GT(speed.mfu, 0);
  EXPECT_LT(speed.mfu, 1);
}

TEST(ExpectedSpeed, MoreWorkIsSlowerAndLessIsFaster) {
  constexpr auto kNone = model::Recompute::none;
  for (const char* preset : {"llama-mtp-7b", "qwen3-0.6b"})
    for (const char* device : {"h200", "rtx4090", "cpu"}) {
      const SpeedRequest plain = on_gpu(preset, 4, 1024, kNone);
      const double none = rate(plain, device);
      const double light = rate(on_gpu(preset, 4, 1024, model::Recompute::light), device);
      const double block = rate(on_gpu(preset, 4, 1024, model::Recompute::block), device);
      EXPECT_GT(none, light) << preset << device;
      EXPECT_GT(light, block) << preset << device;
      EXPECT_GT(rate(with_lora(plain, 16), device), none) << preset << device;
      EXPECT_GT(rate(frozen_critic(plain), device), none) << preset << device;
      SpeedRequest fewer_targets = plain;
      fewer_targets.targets_per_token = 0.5;
      EXPECT_GT(rate(fewer_targets, device), none) << preset << device;
      SpeedRequest longer = plain;
      longer.span = 4096;
      EXPECT_LT(rate(longer, device), none) << preset << device;
      SpeedRequest accumulates = plain;
      accumulates.micro_batches = 8;  // one update for eight micro-batches
      EXPECT_GT(rate(accumulates, device), none) << preset << device;
    }
}

TEST(ExpectedSpeed, AFrozenModelBesideCostsItsForward) {
  const SpeedRequest alone = on_gpu("qwen3-0.6b", 4, 1024);
  SpeedRequest beside = alone;
  beside.shape.other = FrozenRequest{.model = alone.shape.model, .units = {}, .dtype = kBFloat16};
  const double none = 1 / rate(alone), both = 1 / rate(beside);
  EXPECT_GT(both / none, 1.15) << "less than a forward";
  EXPECT_LT(both / none, 1.5) << "more than a forward";
  beside.shape.other->logits = false;
  EXPECT_LT(1 / rate(beside), both);
}

// Matrices in 4 bits are read and written out in forward and in backward, at what the H200's memory
// gives and no slower than half of it; another model's in its forward.
TEST(ExpectedSpeed, Nf4CostsWhatItMoves) {
  const SpeedRequest plain = with_lora(on_gpu("llama-2-7b", 4, 1024), 16);
  SpeedRequest quantized = plain;
  quantized.shape.quantize = true;
  const auto seconds = [](const SpeedRequest& request) {
    return static_cast<double>(request.shape.tokens) / rate(request);
  };
  const double matrices = 32.0 * (4 * 4096 * 4096 + 3 * 4096 * 11008);
  const double pass = matrices * 2.516 / 4.8e12;
  const double more = seconds(quantized) - seconds(plain);
  EXPECT_GT(more, 2 * pass);
  EXPECT_LT(more, 4 * pass);
  SpeedRequest beside = plain;
  beside.shape.other = FrozenRequest{
      .model = plain.shape.model, .units = planned_units(plain.shape), .dtype = kBFloat16};
  const double numbers = seconds(beside);
  beside.shape.other->units = planned_units(quantized.shape);
  EXPECT_GT(seconds(beside) - numbers, pass);
  EXPECT_LT(seconds(beside) - numbers, 2 * pass);
}

// A rank is never faster for having others, save where they take over its part of the update.
// The upper plane is gathered as it lies; a master in one tensor is cast first.
TEST(ExpectedSpeed, PlanesCostNoCast) {
  SpeedRequest planes =
      on_ranks(on_gpu("llama-mtp-7b", 4, 2048), parallel::Strategy::full_shard, 2);
  const SpeedRequest whole = planes;
  planes.shape.parallel.split_masters = true;
  EXPECT_GT(rate(planes), rate(whole));
}

TEST(ExpectedSpeed, LinksOnlyEverCost) {
  using parallel::Strategy;
  DeviceModel slow = device_model("h200");
  slow.in_node.bytes_per_s = slow.between_nodes.bytes_per_s = 1e9;
  for (const Strategy strategy :
       {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard}) {
    SpeedRequest request = on_ranks(on_gpu("qwen3-0.6b", 8, 1024), strategy, 1);
    const double alone = expected_speed(request, slow).tokens_per_s_rank;
    double before = alone;
    for (const int world : {2, 8, 16, 64}) {
      request.shape.world = world;
      const double over_slow = expected_speed(request, slow).tokens_per_s_rank;
      EXPECT_LT(over_slow, alone) << name_of(strategy) << world;
      EXPECT_LE(over_slow, before) << name_of(strategy) << world;
      EXPECT_GT(rate(request), over_slow) << name_of(strategy) << world;
      before = over_slow;
    }
  }
  SpeedRequest replicated = on_ranks(on_gpu("qwen3-0.6b", 8, 1024), Strategy::no_shard, 1);
  const double ideal = rate(replicated);
  replicated.shape.world = 8;
  EXPECT_LE(rate(replicated), ideal) << "every rank updates all of it";
}

TEST(DeviceModels, AreKnownByNameAndByTheDriversName) {
  const std::vector<std::string> names{"cpu",     "h200", "h100", "a100-80",
                                       "a100-40", "b200", "l40s", "rtx4090"};
  EXPECT_EQ(device_names(), names);
  for (const std::string& name : names) {
    const DeviceModel& device = device_model(name);
    EXPECT_EQ(device.name, name);
    EXPECT_EQ(device.measured, name == "h200") << name;
    EXPECT_FALSE(device.basis.empty()) << name;
    EXPECT_EQ(expected_speed(on_gpu("small", 4, 256), device).estimated, !device.measured);
  }
  EXPECT_NE(device_model("h100").basis.find("989 TFLOP/s"), std::string::npos);
  EXPECT_EQ(find_device("NVIDIA H200")->name, "h200");
  EXPECT_EQ(find_device("NVIDIA A100-SXM4-80GB")->name, "a100-80");
  EXPECT_EQ(find_device("NVIDIA A100-PCIE-40GB")->name, "a100-40");
  EXPECT_EQ(find_device("NVIDIA GeForce RTX 4090")->name, "rtx4090");
  EXPECT_EQ(find_device("Tesla V100-SXM2-16GB"), nullptr);
}

TEST(DeviceModels, AnUnknownNameIsToldTheNearest) {
  try {
    device_model("h20");
    FAIL() << "there is no such device";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_NE(std::string(error.what()).find("\"h20\""), std::string::npos) << error.what();
    EXPECT_EQ(error.hint(), "did you mean h200?");
  }
  try {
    device_model("abacus");
    FAIL() << "there is no such device";
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("a100-80"), std::string::npos) << error.hint();
  }
}

TEST(RateCurve, IsStraightOnLogarithmicAxesAndFlatBeyondItsEnds) {
  const RateCurve curve{{1000, 40}, {10, 10}};
  EXPECT_EQ(curve.at(1), 10);
  EXPECT_EQ(curve.at(1e9), 40);
  EXPECT_WITHIN(std::abs(curve.at(100) - 20), 1e-12);
  EXPECT_WITHIN(std::abs(curve.scaled(3).at(100) - 60), 1e-12);
  EXPECT_EQ(RateCurve(7).at(3), 7);
}

TEST(CalibrateCpu, MeasuresEveryRate) {
  const DeviceModel device = calibrate_cpu(/*threads=*/1, /*seconds=*/0.05, /*ranks=*/2);
  EXPECT_TRUE(device.measured);
  std::vector<RateCurve> curves(device.passes.begin(), device.passes.end());
  for (const RateCurve& curve : {device.products, device.full_products, device.attention_forward,
                                 device.attention_backward, device.busy})
    curves.push_back(curve);
  for (const RateCurve& curve : curves)
    for (const RatePoint& point : curve.points()) {
      EXPECT_GT(point.size, 0);
      EXPECT_GT(point.per_s, 0);
      EXPECT_TRUE(std::isfinite(point.per_s));
    }
  EXPECT_GT(device.in_node.bytes_per_s, 0);
  EXPECT_TRUE(std::isfinite(device.in_node.bytes_per_s));
  EXPECT_GT(device.in_node.compute_s_per_byte, 0);
  SpeedRequest request = on_gpu("micro", 4, 128);
  request.shape.parallel = {};
  const ExpectedSpeed speed = expected_speed(request, device);
  EXPECT_FALSE(speed.estimated);
  EXPECT_GT(speed.tokens_per_s, 0);
  EXPECT_TRUE(std::isfinite(speed.tokens_per_s));
}

}  // namespace
}  // namespace wmtp::run
