// AdamW with moments in 8 bits: the numbers of torchao, the draws of bf16 masters, and that neither
// threads nor cuts change a bit.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {
namespace {

struct State8bit {
  Tensor param, grad;
  MomentCodes first, second;
};

MomentCodes fresh_codes(Moment moment, std::int64_t size) {
  return {at::full({size}, zero_code(moment), at::kByte),
          at::zeros({num_code_blocks(size)}, at::kFloat)};
}

State8bit fresh_state(const Tensor& param, const Tensor& grad) {
  return {param.clone(), grad.clone(), fresh_codes(Moment::first, param.numel()),
          fresh_codes(Moment::second, param.numel())};
}

AdamW arguments_8bit(const State8bit& state, std::int64_t applied_steps) {
  const auto on_device = state.grad.options().dtype(kFloat32);
  AdamW args;
  args.param = state.param, args.grad = state.grad;
  args.exp_avg = state.first.codes, args.exp_avg_scales = state.first.scales;
  args.exp_avg_sq = state.second.codes, args.exp_avg_sq_scales = state.second.scales;
  args.learning_rate = 1e-2, args.beta1 = 0.9, args.beta2 = 0.95, args.weight_decay = 0.01;
  args.grad_scale = at::full({}, 1.0, on_device);
  args.applied_steps = at::full({}, applied_steps, on_device.dtype(kInt64));
  args.apply = at::full({}, 1, on_device.dtype(kInt32));
  args.rounding = {.seed = 9, .stream = 1234, .first_element = 0};
  return args;
}

Tensor numbers_of(Moment moment, const MomentCodes& codes) {
  const Tensor values = at::empty({codes.codes.numel()}, at::kFloat);
  dequantize(moment, codes, 0, values);
  return values;
}

// The numbers may be an ulp away from theirs, whose expressions round in another order: a code next
// to theirs is right where y lies on a midpoint.
void expect_codes(const Tensor& codes, std::initializer_list<int> wanted) {
  std::int64_t i = 0;
  for (const int code : wanted) {
    EXPECT_NEAR(codes[i].item<int>(), code, 1) << i;
    ++i;
  }
}

TEST(AdamW8bit, StepsAsTorchaoRecordedThem) {
  constexpr std::int64_t kSize = 4096;
  const Tensor param = at::empty({kSize}, at::kFloat), grad = at::empty({kSize}, at::kFloat);
  for (int i = 0; i < kSize; ++i) {
    param.data_ptr<float>()[i] = static_cast<float>((37 * i % 256 - 128) / 512.0);
    grad.data_ptr<float>()[i] =
        static_cast<float>((91 * i % 509 - 254) / 1000.0 * std::pow(10.0, -(i % 5)));
  }
  const State8bit state = fresh_state(param, grad);
  adamw(arguments_8bit(state, 0));
  // Four roundings of a number near 0.24, each of half an ulp (2^-26). A scale is a share 1 - beta
  // of a gradient, and ours takes beta in fp32: 2^-25 of 0.1 and 0.05.
  constexpr double kUlps = 4 * 0x1p-26;
  const auto expect_scales = [&state](double first, double second) {
    EXPECT_NEAR(state.first.scales[0].item<float>(), first, first * 0x1p-25 / 0.1);
    EXPECT_NEAR(state.second.scales[0].item<float>(), second, second * 0x1p-25 / 0.05);
  };
  EXPECT_NEAR(state.param[0].item<float>(), -0.2399750053882599, kUlps);
  EXPECT_NEAR(state.param[1].item<float>(), -0.1677166074514389, kUlps);
  expect_scales(0.02540000155568123, 0.0032258001156151295);
  expect_codes(state.first.codes, {0, 76, 108, 133, 132, 240, 69, 104});
  expect_codes(state.second.codes, {255, 42, 6, 1, 1, 201, 53, 8});  // ours: no 0
  state.grad.mul_(-0.5);
  adamw(arguments_8bit(state, 1));
  EXPECT_NEAR(state.param[0].item<float>(), -0.2373097836971283, kUlps);
  EXPECT_NEAR(state.param[1].item<float>(), -0.16498321294784546, kUlps);
  expect_scales(0.01002779882401228, 0.0038709600921720266);
  expect_codes(state.first.codes, {0, 75, 108, 133, 132, 241, 69, 103});
}

// The same update with the moments as fp32 numbers in between.
TEST(AdamW8bit, IsTheUpdateOfWhatTheCodesSay) {
  for (const std::int64_t size : {1, 63, 64, 65, 255, 256, 257, 16383, 16384, 16385}) {
    const Tensor param = normals("param", {size}).to(at::kFloat);
    State8bit state = fresh_state(param, normals("grad", {size}).to(at::kFloat));
    const Tensor m1 = normals("m1", {size}, 0.1).to(at::kFloat).contiguous();
    const Tensor m2 = normals("m2", {size}, 0.1).to(at::kFloat).square().contiguous();
    quantize(Moment::first, m1, state.first);
    quantize(Moment::second, m2, state.second);
    AdamW wide = arguments_8bit(state, 4);
    wide.param = param.clone();
    wide.exp_avg = numbers_of(Moment::first, state.first);
    wide.exp_avg_sq = numbers_of(Moment::second, state.second);
    wide.exp_avg_scales = wide.exp_avg_sq_scales = Tensor();
    adamw(arguments_8bit(state, 4));
    adamw(wide);
    EXPECT_LE(worst_error(state.param, wide.param), 1e-6) << size;
    const MomentCodes first = fresh_codes(Moment::first, size);
    quantize(Moment::first, wide.exp_avg, first);
    EXPECT_LE((first.codes.to(at::kInt) - state.first.codes.to(at::kInt)).abs().max().item<int>(),
              1)
        << size;
    EXPECT_LE(worst_error(state.first.scales, first.scales), 1e-6) << size;
  }
}

// Without gradients and moments only decay acts, as it does under bf16_sr with the same draws.
TEST(AdamW8bit, Bf16MastersRoundAsTheyDoBesideBf16Moments) {
  constexpr std::int64_t kSize = 1001;
  const Tensor param = normals("param", {kSize}).to(kBFloat16);
  const State8bit state = fresh_state(param, at::zeros({kSize}, at::kFloat));
  AdamW args = arguments_8bit(state, 6);
  args.rounding.first_element = 512;
  AdamW rounded = args;
  rounded.param = param.clone();
  rounded.exp_avg = at::zeros({kSize}, kBFloat16),
  rounded.exp_avg_sq = at::zeros({kSize}, kBFloat16);
  args.compute_copy = at::zeros({kSize}, at::kFloat);
  adamw(args);
  adamw(rounded);
  EXPECT_TRUE(bit_equal(state.param, rounded.param));
  EXPECT_FALSE(bit_equal(state.param, param)) << "the control";
  EXPECT_TRUE(args.compute_copy.equal(state.param.to(at::kFloat)));
}

TEST(AdamW8bit, ThreadsAndCutsAtBlocksChangeNothing) {
  constexpr std::int64_t kSize = 70001;
  const Tensor param = normals("param", {kSize}).to(kBFloat16);
  const Tensor grad = normals("grad", {kSize}).to(at::kFloat);
  const auto run = [&](int threads, std::int64_t cut) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const State8bit state = fresh_state(param, grad);
    for (std::int64_t step = 0; step < 3; ++step)
      for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, kSize}}) {
        if (begin == end) continue;
        auto part = [&, first = begin, size = end - begin](const Tensor& t) {
          return t.narrow(0, first, size);
        };
        auto blocks = [&, first = begin / 256, count = num_code_blocks(end) - begin / 256](
                          const Tensor& t) { return t.narrow(0, first, count); };
        AdamW args = arguments_8bit({part(state.param),
                                     part(state.grad),
                                     {part(state.first.codes), blocks(state.first.scales)},
                                     {part(state.second.codes), blocks(state.second.scales)}},
                                    step);
        args.rounding.first_element = begin;
        adamw(args);
      }
    at::set_num_threads(before);
    return state;
  };
  const State8bit whole = run(1, 0);
  for (const auto& [threads, cut] : {std::pair{4, 0}, std::pair{1, 256}, std::pair{3, 256 * 131}}) {
    const State8bit other = run(threads, cut);
    EXPECT_TRUE(bit_equal(other.param, whole.param)) << threads << " " << cut;
    EXPECT_TRUE(bit_equal(other.first.codes, whole.first.codes)) << threads << " " << cut;
    EXPECT_TRUE(bit_equal(other.second.codes, whole.second.codes)) << threads << " " << cut;
    EXPECT_TRUE(bit_equal(other.second.scales, whole.second.scales)) << threads << " " << cut;
  }
}

TEST(AdamW8bit, ABadStepChangesNothing) {
  const State8bit state =
      fresh_state(normals("param", {1000}).to(kBFloat16), normals("grad", {1000}).to(at::kFloat));
  adamw(arguments_8bit(state, 0));
  const Tensor param = state.param.clone(), codes = state.first.codes.clone();
  AdamW args = arguments_8bit(state, 1);
  args.grad_scale.fill_(NAN);
  args.apply.fill_(0);
  adamw(args);
  EXPECT_TRUE(bit_equal(state.param, param));
  EXPECT_TRUE(bit_equal(state.first.codes, codes));
}

// A gradient that is gone: without the floor the second moment of the small one would read as zero,
// and its first moment would be divided by eps alone.
TEST(AdamW8bit, ASmallSecondMomentIsNeverForgotten) {
  const Tensor grad = at::full({256}, 1.0, at::kFloat);
  grad[3] = 1e-4;  // its square is 1e-8 of the largest
  const State8bit state = fresh_state(at::zeros({256}, at::kFloat), grad);
  adamw(arguments_8bit(state, 0));
  state.grad.zero_();
  const float before = state.param[3].item<float>();
  adamw(arguments_8bit(state, 1));
  EXPECT_LT(std::abs(state.param[3].item<float>() - before), 0.1);
}

// The fp32 numbers may differ in their last bits: a weight by a neighbour (2^-7 of it), a code by
// one.
TEST(AdamW8bitOnGpu, EqualsCpu) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const std::int64_t size : {1, 255, 256, 257, 16385, 100003})
    for (const DType grad_dtype : {kFloat32, kBFloat16}) {
      const State8bit cpu = fresh_state(normals("param", {size}).to(kBFloat16),
                                        normals("grad", {size}).to(grad_dtype));
      const auto on_gpu = [](const Tensor& t) { return t.to(c10::Device(c10::kCUDA, 0)); };
      const State8bit gpu{on_gpu(cpu.param),
                          on_gpu(cpu.grad),
                          {on_gpu(cpu.first.codes), on_gpu(cpu.first.scales)},
                          {on_gpu(cpu.second.codes), on_gpu(cpu.second.scales)}};
      adamw(arguments_8bit(cpu, 0));
      adamw(arguments_8bit(gpu, 0));
      EXPECT_LE(worst_error(gpu.param, cpu.param), 0x1p-6) << size;
      EXPECT_LE(worst_error(gpu.first.scales, cpu.first.scales), 1e-6) << size;
      EXPECT_LE(worst_error(gpu.second.scales, cpu.second.scales), 1e-6) << size;
      for (const auto& [got, wanted] : {std::pair{gpu.first.codes, cpu.first.codes},
                                        std::pair{gpu.second.codes, cpu.second.codes}}) {
        // A last bit of a moment may lie on the other side of where a code begins.
        const Tensor apart = (got.cpu().to(at::kInt) - wanted.to(at::kInt)).abs();
        EXPECT_LE(apart.max().item<int>(), 1) << size;
        EXPECT_LE(apart.sum().item<std::int64_t>(), size / 1000) << size;
      }
    }
}

}  // namespace
}  // namespace wmtp::kernels::testing
