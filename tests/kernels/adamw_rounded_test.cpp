// AdamW on bf16 masters and beside bf16 moments: which neighbour is taken, that the mean is right,
// that any split draws alike, and on a GPU that the bits are the CPU's.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/kernels/op_matrix.h"
#include "wmtp/core/rng.h"
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/cpu/stochastic_rounding.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {
namespace {

constexpr double kUlp = 0x1p-7;  // of bf16 in [1, 2)

struct State {
  Tensor param, exp_avg, exp_avg_sq, grad, copy;
};

State constant_state(std::int64_t size, double param, double grad) {
  const auto bf16 = at::TensorOptions().dtype(kBFloat16);
  return {at::full({size}, param, bf16), at::zeros({size}, bf16), at::zeros({size}, bf16),
          at::full({size}, grad, at::kFloat), at::zeros({size}, at::kFloat)};
}

State random_state(std::int64_t size, c10::Device device) {
  auto to = [&](const Tensor& t, DType dtype) { return copied(t.to(dtype).to(device)); };
  return {to(normals("param", {size}), kBFloat16), to(normals("m1", {size}, 0.1), kBFloat16),
          to(normals("m2", {size}, 0.1).abs(), kBFloat16), to(normals("grad", {size}), kFloat32),
          fresh({size}, at::TensorOptions().dtype(kFloat32).device(device))};
}

AdamW arguments(const State& state, std::int64_t applied_steps = 0) {
  const auto on_device = state.grad.options();
  AdamW args;
  args.param = state.param, args.grad = state.grad;
  args.exp_avg = state.exp_avg, args.exp_avg_sq = state.exp_avg_sq;
  args.compute_copy = state.copy;
  args.learning_rate = 1e-3, args.weight_decay = 0;
  args.grad_scale = at::full({}, 1.0, on_device);
  args.applied_steps = at::full({}, applied_steps, on_device.dtype(kInt64));
  args.apply = at::full({}, 1, on_device.dtype(kInt32));
  args.rounding = {.seed = 9, .stream = 1234, .first_element = 0};
  return args;
}

double mean(const Tensor& values) {
  return values.to(kFloat64).mean().item<double>();
}

// Without a gradient p becomes p (1 - lr wd): an fp32 number this test rounds by itself.
TEST(AdamWRounded, TakesTheNeighbourThatTheCounterSays) {
  constexpr std::int64_t kSize = 1001, kFirst = 77, kApplied = 6;
  const State state = constant_state(kSize, 1.5, 0);
  AdamW args = arguments(state, kApplied);
  args.learning_rate = 0.01, args.weight_decay = 0.1;
  args.rounding.first_element = kFirst;
  adamw(args);
  const float wanted = 1.5f * static_cast<float>(1 - 0.01 * 0.1);
  int up = 0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    const auto e = static_cast<std::uint64_t>(kFirst + i);
    const PhiloxWords words = philox4x32_10(9, 1234 + kApplied + 1, e / 2);
    const std::uint32_t bits =
        std::bit_cast<std::uint32_t>(wanted) + (words[2 * (e % 2)] & 0xffffu);
    const float neighbour = std::bit_cast<float>(bits & 0xffff0000u);
    ASSERT_EQ(state.param[i].item<float>(), neighbour) << i;
    up += neighbour > wanted;
  }
  EXPECT_GT(up, 0);
  EXPECT_LT(up, kSize);
  EXPECT_TRUE(state.copy.equal(state.param.to(kFloat32)));
}

// One update of 1e-3 is an eighth of the distance between neighbours: to the nearest it would be
// lost every time. The mean over many elements must be the exact one within five deviations.
TEST(AdamWRounded, IsUnbiased) {
  constexpr std::int64_t kSize = 1 << 18;
  const double spread = 5 / std::sqrt(static_cast<double>(kSize));
  for (const double grad : {0.37, -0.37}) {
    const State state = constant_state(kSize, 1.0, grad);
    adamw(arguments(state));
    const double exact = 1.0 - 1e-3 * (grad > 0 ? 1 : -1);  // the first step is lr * sign
    EXPECT_NEAR(mean(state.param), exact, spread * kUlp / 2);
    EXPECT_NE(mean(state.param), 1.0);
    EXPECT_NEAR(mean(state.exp_avg), 0.1 * grad, spread * 0x1p-12);
    EXPECT_NEAR(mean(state.exp_avg_sq), 0.05 * grad * grad, spread * 0x1p-14);
  }
}

// Small updates add up over steps; with rounding to the nearest not one of them would be seen.
TEST(AdamWRounded, SmallUpdatesAddUp) {
  constexpr std::int64_t kSize = 1 << 14;
  const State state = constant_state(kSize, 1.5, 0.5);
  for (std::int64_t step = 0; step < 100; ++step) {
    AdamW args = arguments(state, step);
    args.learning_rate = 1e-4;
    adamw(args);
  }
  EXPECT_NEAR(mean(state.param), 1.5 - 100 * 1e-4, 5e-4);
}

TEST(AdamWRounded, EverySplitDrawsAlike) {
  constexpr std::int64_t kSize = 70001;
  const State whole = random_state(kSize, c10::kCPU);
  adamw(arguments(whole, 3));
  for (const std::int64_t cut : {1, 128, 33333}) {
    const State split = random_state(kSize, c10::kCPU);
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, kSize}}) {
      auto part = [&, first = begin, size = end - begin](const Tensor& t) {
        return t.narrow(0, first, size);
      };
      AdamW args = arguments({part(split.param), part(split.exp_avg), part(split.exp_avg_sq),
                              part(split.grad), part(split.copy)},
                             3);
      args.rounding.first_element = begin;
      adamw(args);
    }
    EXPECT_TRUE(bit_equal(split.param, whole.param)) << cut;
    EXPECT_TRUE(bit_equal(split.exp_avg, whole.exp_avg)) << cut;
    EXPECT_TRUE(bit_equal(split.exp_avg_sq, whole.exp_avg_sq)) << cut;
  }
}

TEST(AdamWRounded, SeedStepAndStreamChangeTheDraw) {
  auto rounded = [](std::uint64_t seed, std::uint64_t stream) {
    const State state = constant_state(4096, 1.0, 0.5);
    AdamW args = arguments(state);
    args.rounding.seed = seed, args.rounding.stream = stream;
    adamw(args);
    return state.param;
  };
  EXPECT_TRUE(bit_equal(rounded(1, 2), rounded(1, 2)));
  EXPECT_FALSE(bit_equal(rounded(1, 2), rounded(3, 2)));
  EXPECT_FALSE(bit_equal(rounded(1, 2), rounded(1, 3)));
}

TEST(AdamWRounded, DrawsTheHalvesOfTheCounter) {
  AdamW args = arguments(constant_state(3, 0, 0));
  args.rounding = {.seed = 1234,
                   .stream = stream_id("round/model.layers.0.self_attn.q_proj.weight"),
                   .first_element = 0};
  EXPECT_EQ(args.rounding.stream, 0x841977a364588ee8u);
  cpu::RoundingDraws draws(args);
  const std::array<std::array<std::uint32_t, 3>, 3> wanted{
      {{0x354a, 0x722d, 0xaaac}, {0x6160, 0x14e0, 0xeebb}, {0x4f83, 0x87a9, 0xbec0}}};
  for (std::int64_t e = 0; e < 3; ++e) {
    const auto drawn = draws.at(e);
    EXPECT_EQ((std::array{drawn.param, drawn.exp_avg, drawn.exp_avg_sq}),
              wanted[static_cast<std::size_t>(e)]);
  }
  EXPECT_EQ(cpu::rounded(std::bit_cast<float>(0x3f804000u), 0xbfff).x, 0x3f80);
  EXPECT_EQ(cpu::rounded(std::bit_cast<float>(0x3f804000u), 0xc000).x, 0x3f81);
}

// The moments are those of bf16_sr, the weight that of an fp32 run with the same moments.
TEST(AdamWRounded, AnFp32MasterIsNotRounded) {
  constexpr std::int64_t kSize = 10001;
  const State bf16 = random_state(kSize, c10::kCPU);
  State mixed = random_state(kSize, c10::kCPU), wide = random_state(kSize, c10::kCPU);
  mixed.param = mixed.param.to(kFloat32);
  for (Tensor* one : {&wide.param, &wide.exp_avg, &wide.exp_avg_sq}) *one = one->to(kFloat32);
  for (const State* state :
       {&bf16, static_cast<const State*>(&mixed), static_cast<const State*>(&wide)})
    adamw(arguments(*state, 3));
  EXPECT_TRUE(bit_equal(mixed.exp_avg, bf16.exp_avg));
  EXPECT_TRUE(bit_equal(mixed.exp_avg_sq, bf16.exp_avg_sq));
  EXPECT_LE(worst_error(mixed.param, wide.param), 1e-6);
  EXPECT_FALSE(bit_equal(mixed.param.to(kBFloat16).to(kFloat32), mixed.param)) << "the control";
  EXPECT_TRUE(bit_equal(mixed.copy, mixed.param));
}

TEST(AdamWRounded, ABadStepChangesNothing) {
  const State state = random_state(1000, c10::kCPU), before = random_state(1000, c10::kCPU);
  AdamW args = arguments(state);
  args.grad_scale.fill_(NAN);
  args.apply.fill_(0);
  adamw(args);
  EXPECT_TRUE(bit_equal(state.param, before.param));
  EXPECT_TRUE(bit_equal(state.exp_avg, before.exp_avg));
}

// The same words are drawn; the fp32 number that is rounded may differ in its last bit, which
// changes a neighbour about once in 2^15.
void expect_gpu_equals_cpu(std::int64_t size, DType grad_dtype) {
  State cpu = random_state(size, c10::kCPU), gpu = random_state(size, c10::Device(c10::kCUDA, 0));
  for (State* state : {&cpu, &gpu}) {
    state->grad = copied(state->grad.to(grad_dtype));
    AdamW args = arguments(*state, 3);
    args.grad_scale = args.grad_scale.to(kFloat32);
    args.rounding.first_element = 13;
    adamw(args);
  }
  const Tensor got = gpu.param.cpu().to(kFloat64), wanted = cpu.param.to(kFloat64);
  EXPECT_LE((got - wanted).abs().max().item<double>(), 2 * kUlp) << size;
  const double different = got.ne(wanted).to(kFloat64).sum().item<double>();
  const double share = size < 10000 ? 0.01 : 1e-3;
  EXPECT_LE(different, std::max(1.0, share * static_cast<double>(size))) << size;
  EXPECT_LE(worst_error(gpu.exp_avg, cpu.exp_avg), 1e-2) << size;
  EXPECT_LE(worst_error(gpu.exp_avg_sq, cpu.exp_avg_sq), 1e-2) << size;
  EXPECT_TRUE(bit_equal(gpu.copy, gpu.param.to(kFloat32))) << size;
}

TEST(AdamWRoundedOnGpu, EqualsCpu) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const std::int64_t size : {1, 1000, 100003, 1 << 20}) expect_gpu_equals_cpu(size, kFloat32);
}

TEST(AdamWRoundedOnGpu, AnFp32MasterToo) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const std::int64_t size : {1, 1000, 100003}) {
    State cpu = random_state(size, c10::kCPU), gpu = random_state(size, c10::Device(c10::kCUDA, 0));
    for (State* state : {&cpu, &gpu}) {
      state->param = state->param.to(kFloat32);
      adamw(arguments(*state, 3));
    }
    EXPECT_LE(worst_error(gpu.param, cpu.param), 1e-5) << size;
    EXPECT_LE(worst_error(gpu.exp_avg, cpu.exp_avg), 1e-2) << size;
    EXPECT_LE(worst_error(gpu.exp_avg_sq, cpu.exp_avg_sq), 1e-2) << size;
  }
}

TEST(AdamWRoundedOnGpu, EqualsCpuAtTheEdges) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const std::int64_t size : kEdges)
    for (const DType grad_dtype : {kFloat32, kBFloat16}) {
      expect_gpu_equals_cpu(size, grad_dtype);
      const OffBoundary place;
      expect_gpu_equals_cpu(size, grad_dtype);
    }
}

}  // namespace
}  // namespace wmtp::kernels::testing
