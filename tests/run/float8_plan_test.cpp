// What plans say of float8 and of 8-bit moments: which GPUs are refused it, and how fast it is.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/expect_error.h"
#include "support/tolerance.h"
#include "wmtp/model/presets.h"
#include "wmtp/run/plan/kernels/float8_choice.h"
#include "wmtp/run/plan/speed/expected_speed.h"

namespace wmtp::run {
namespace {

using kernels::Float8Recipe;

const std::set<std::string> kGpusWithFloat8{"h200", "h100", "b200"};

Float8Recipe recipe_on(const std::optional<GpuInfo>& gpu) {
  parallel::ParallelOptions options;
  options.param_dtype = kBFloat16;
  options.device = c10::Device(c10::kCUDA, 0);
  return float8_recipe(config::Float8::tensorwise, "training.float8", model::preset("micro"),
                       options, gpu);
}

TEST(Float8Choice, AGpuThatIsNamedIsAskedForItsComputeCapability) {
  for (const std::string& name : device_names()) {
    const DeviceModel& device = device_model(name);
    if (device.is_cpu()) continue;
    if (kGpusWithFloat8.contains(name)) {
      EXPECT_EQ(recipe_on(device.gpu()), Float8Recipe::tensorwise) << name;
      continue;
    }
    EXPECT_WMTP_ERROR(recipe_on(device.gpu()), ErrorKind::config,
                      fmt::format("training.float8: tensorwise needs a GPU of compute capability "
                                  "9.0 or newer, and {} has {}.{}",
                                  device.title, device.major, device.minor));
  }
  EXPECT_WMTP_ERROR(recipe_on(device_model("a100-80").gpu()), ErrorKind::config,
                    "and NVIDIA A100 80GB has 8.0");
  EXPECT_WMTP_ERROR(recipe_on(device_model("l40s").gpu()), ErrorKind::config,
                    "and NVIDIA L40S has 8.9");
  EXPECT_EQ(recipe_on({}), Float8Recipe::tensorwise) << "nobody knows which GPU it will be";
}

TEST(DeviceModels, HavePeaksInFloat8WhereRunsAreNotRefusedIt) {
  for (const std::string& name : device_names()) {
    const DeviceModel& device = device_model(name);
    EXPECT_EQ(device.peak_float8_flops > 0, kGpusWithFloat8.contains(name)) << name;
    EXPECT_EQ(device.major >= 9, kGpusWithFloat8.contains(name)) << name;
    EXPECT_LT(device.peak_float8_flops, 3 * device.peak_flops) << name;
  }
}

constexpr std::int64_t kRows = 4, kLength = 2048;

// LLaMA-MTP 6.7B of 4 x 2048 tokens.
SpeedRequest seven_b(Float8Recipe float8, model::Recompute recompute = model::Recompute::light) {
  SpeedRequest request;
  request.shape.model = model::preset("llama-mtp-7b");
  request.shape.parallel.param_dtype = kBFloat16;
  request.shape.parallel.device = c10::Device(c10::kCUDA, 0);
  request.shape.recompute = recompute;
  request.shape.float8 = float8;
  request.shape.tokens = kRows * kLength;
  request.span = kLength;
  return request;
}

ExpectedSpeed speed_of(const SpeedRequest& request, const char* device = "h200") {
  return expected_speed(request, device_model(device));
}

double seconds_of(const ExpectedSpeed& speed, std::string_view what) {
  for (const ExpectedSpeed::Part& part : speed.parts)
    if (part.what == what) return part.seconds;
  return 0;
}

// Of the four products of a block: numbers of x and dy together for a token, and of weights.
constexpr double kWidth = 4096, kFfn = 11008;
constexpr double kOperands = (3 * kWidth + kFfn) + (3 * kWidth + kWidth + 2 * kFfn + kWidth);
constexpr double kWeights = 4 * kWidth * kWidth + 3 * kWidth * kFfn;

constexpr double kFloorTokensPerS = 23'500;  // of an H200 whose products alone take time

TEST(ExpectedFloat8, IsFasterThanBf16AndSlowerThanItsFloor) {
  for (const auto level :
       {model::Recompute::none, model::Recompute::light, model::Recompute::block}) {
    const double bf16 = speed_of(seven_b(Float8Recipe::off, level)).tokens_per_s_rank;
    const double rowwise = speed_of(seven_b(Float8Recipe::rowwise, level)).tokens_per_s_rank;
    const double tensorwise = speed_of(seven_b(Float8Recipe::tensorwise, level)).tokens_per_s_rank;
    EXPECT_GT(rowwise, bf16);
    EXPECT_GT(tensorwise, rowwise) << "rowwise looks at every operand before it is quantised";
    EXPECT_LT(tensorwise, kFloorTokensPerS);
    EXPECT_LT(tensorwise, 2 * bf16);
  }
}

TEST(ExpectedFloat8, IsEstimatedWhateverTheGpuIs) {
  for (const std::string& name : kGpusWithFloat8) {
    for (const auto recipe : {Float8Recipe::tensorwise, Float8Recipe::rowwise}) {
      const ExpectedSpeed speed = speed_of(seven_b(recipe), name.c_str());
      EXPECT_TRUE(speed.estimated) << name;
      EXPECT_THAT(speed.basis, ::testing::HasSubstr("never measured: products in float8")) << name;
    }
  }
  const ExpectedSpeed speed = speed_of(seven_b(Float8Recipe::tensorwise));
  EXPECT_THAT(speed.basis, ::testing::HasSubstr("published 1979 TFLOP/s"));
  const ExpectedSpeed bf16 = speed_of(seven_b(Float8Recipe::off));
  EXPECT_FALSE(bf16.estimated);
  EXPECT_EQ(bf16.basis, device_model("h200").basis);
}

TEST(ExpectedFloat8, ProductsScaleWithTheDevicesPeak) {
  const SpeedRequest request = seven_b(Float8Recipe::tensorwise, model::Recompute::none);
  const double h100 = seconds_of(speed_of(request, "h100"), "matrix products");
  const double b200 = seconds_of(speed_of(request, "b200"), "matrix products");
  EXPECT_WITHIN(std::abs(h100 / b200 / (2250.0 / 989) - 1), 0.01);  // 4500 / 1979 of blocks' alone
  SpeedRequest bf16 = request;
  bf16.shape.float8 = Float8Recipe::off;
  const double before = seconds_of(speed_of(bf16, "h100"), "matrix products");
  EXPECT_LT(h100, 0.6 * before);
  EXPECT_GT(h100, 0.5 * before) << "the unembedding stays in bf16";
}

// 65.8 k numbers of operands a token and block are read in two bytes and written in two, at no more
// than the memory gives. On top come the pass that looks for amax at the attention's output (twice:
// it is not kept) and at two gradients, and that output's second reading. What a gather quantises
// and a backward turns is as much as the casts to bf16 are, 12 bytes.
TEST(ExpectedFloat8, QuantisingCostsWhatItMoves) {
  const auto passes = [](Float8Recipe recipe) {
    return seconds_of(speed_of(seven_b(recipe, model::Recompute::none)), "element-wise passes");
  };
  const double off = passes(Float8Recipe::off);
  const double tensorwise = passes(Float8Recipe::tensorwise) - off;
  EXPECT_NEAR(kOperands, 65.8e3, 100);
  const double moved = 32.0 * kRows * kLength * 4 * kOperands;
  EXPECT_GT(tensorwise, moved / 4.8e12);
  EXPECT_LT(tensorwise, 1.3 * moved / 4.3e12);
  EXPECT_GT(passes(Float8Recipe::rowwise) - off, tensorwise);
}

// Frozen matrices are looked at and quantised in each forward and backward, 5 bytes a weight, by
// whoever has them; operands in one order, since nothing learns from them.
TEST(ExpectedFloat8, FrozenWeightsAreQuantisedEachTime) {
  const auto passes = [](Float8Recipe recipe) {
    SpeedRequest request = seven_b(recipe);
    model::LoraConfig lora;
    lora.rank = 16;
    request.shape.lora = model::checked(lora, request.shape.model);
    return seconds_of(speed_of(request), "element-wise passes");
  };
  const double more = passes(Float8Recipe::tensorwise) - passes(Float8Recipe::off);
  const double moved = 32 * (2 * 5 * kWeights + kRows * kLength * 3 * kOperands);
  EXPECT_GT(more, moved / 4.8e12);
  EXPECT_LT(more, 1.3 * moved / 4.3e12);
}

// Half of what bf16 moves, where trained weights are gathered in bytes.
TEST(ExpectedFloat8, GathersBytes) {
  const auto waits = [](Float8Recipe recipe) {
    SpeedRequest request = seven_b(recipe);
    request.shape.world = 8;
    DeviceModel slow = device_model("h200");
    slow.in_node.bytes_per_s = 1e9;  // so that links are all there is
    return expected_speed(request, slow).step_s;
  };
  EXPECT_LT(waits(Float8Recipe::tensorwise), 0.85 * waits(Float8Recipe::off));
  EXPECT_GT(waits(Float8Recipe::rowwise), 0.95 * waits(Float8Recipe::off));
}

// 12 bytes of a parameter against 16, at one rate.
TEST(Expected8BitMoments, TakeWhatTheyMoveAndAreEstimated) {
  const auto planned = [](optim::Recipe recipe, const char* device) {
    SpeedRequest request = seven_b(Float8Recipe::off);
    request.shape.recipe = recipe;
    request.shape.parallel.master_dtype = optim::master_dtype(recipe);
    return speed_of(request, device);
  };
  for (const char* device : {"h200", "a100-80", "rtx4090"}) {
    const ExpectedSpeed rounded = planned(optim::Recipe::bf16_sr, device);
    const ExpectedSpeed eight = planned(optim::Recipe::int8, device);
    EXPECT_LT(seconds_of(eight, "update"), seconds_of(rounded, "update")) << device;
    EXPECT_GT(seconds_of(eight, "update"), 0.7 * seconds_of(rounded, "update")) << device;
    EXPECT_TRUE(eight.estimated);
    EXPECT_THAT(eight.basis, ::testing::HasSubstr("never measured: AdamW with 8-bit moments"));
    EXPECT_EQ(rounded.estimated, !device_model(device).measured);
  }
  DeviceModel here = device_model("cpu");
  here.measured = true;  // as calibrate_cpu has it
  SpeedRequest request = seven_b(Float8Recipe::off);
  request.shape.recipe = optim::Recipe::int8;
  EXPECT_FALSE(expected_speed(request, here).estimated);
}

}  // namespace
}  // namespace wmtp::run
