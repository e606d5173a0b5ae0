// The kernels of AdamW that round stochastically or keep codes, by their launchers on host memory:
// the bits that the CPU bodies, other splits and other packs give.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "wmtp/core/rng.h"
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/kernels/cuda/launchers.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::emulated::testing {
namespace {

using kernels::AdamW;
using kernels::Moment;

Tensor uniforms(std::uint64_t stream, std::int64_t size) {
  const Tensor values = at::empty({size}, at::kFloat);
  for (std::int64_t i = 0; i < size; ++i)
    values.data_ptr<float>()[i] = static_cast<float>(
        2 * unit_uniform(philox4x32_10(1, stream, static_cast<std::uint64_t>(i))[0]) - 1);
  return values;
}

// Of zeros and gradients of 0 only decay acts: param * (1 - 2^-8), exact in fp32 for a bf16 one.
AdamW arguments(const Tensor& param, const Tensor& grad, DType moments) {
  AdamW args;
  args.param = param.clone(), args.grad = grad;
  args.exp_avg = at::zeros({param.numel()}, moments);
  args.exp_avg_sq = at::zeros({param.numel()}, moments);
  if (moments == at::kByte) {
    args.exp_avg.fill_(kernels::zero_code(Moment::first));
    args.exp_avg_sq.fill_(kernels::zero_code(Moment::second));
    args.exp_avg_scales = at::zeros({kernels::num_code_blocks(param.numel())}, at::kFloat);
    args.exp_avg_sq_scales = args.exp_avg_scales.clone();
  }
  args.learning_rate = 0x1p-6, args.weight_decay = 0x1p-2;
  args.grad_scale = at::full({}, 1.0, at::kFloat);
  args.applied_steps = at::full({}, 6, at::kLong);
  args.apply = at::full({}, 1, at::kInt);
  args.rounding = {.seed = 9, .stream = 1234, .first_element = 512};
  return args;
}

// Elements begin .. end of the arguments, which must begin a block of codes.
AdamW part_of(const AdamW& whole, std::int64_t begin, std::int64_t end) {
  AdamW part = whole;
  const std::int64_t block = begin / kernels::kCodeBlock;
  for (Tensor* t : {&part.param, &part.grad, &part.exp_avg, &part.exp_avg_sq})
    *t = t->narrow(0, begin, end - begin);
  for (Tensor* t : {&part.exp_avg_scales, &part.exp_avg_sq_scales})
    if (t->defined()) *t = t->narrow(0, block, kernels::num_code_blocks(end) - block);
  part.rounding.first_element += begin;
  return part;
}

void launch(const AdamW& a) {
  const auto floats = [](const Tensor& t) { return t.defined() ? t.data_ptr<float>() : nullptr; };
  const bool bf16_param = a.param.scalar_type() == kBFloat16;
  kernels::CudaAdamW args{};
  args.grad_element =
      a.grad.scalar_type() == kBFloat16 ? kernels::Element::bf16 : kernels::Element::fp32;
  args.param = a.param.data_ptr(), args.grad = a.grad.data_ptr();
  args.exp_avg = a.exp_avg.data_ptr(), args.exp_avg_sq = a.exp_avg_sq.data_ptr();
  args.exp_avg_scales = floats(a.exp_avg_scales);
  args.exp_avg_sq_scales = floats(a.exp_avg_sq_scales);
  args.grad_scale = floats(a.grad_scale);
  args.applied_steps = a.applied_steps.data_ptr<std::int64_t>();
  args.apply = a.apply.data_ptr<std::int32_t>();
  args.size = a.param.numel();
  args.beta1 = static_cast<float>(a.beta1), args.beta2 = static_cast<float>(a.beta2);
  args.log_beta1 = static_cast<float>(std::log(a.beta1));
  args.log_beta2 = static_cast<float>(std::log(a.beta2));
  args.learning_rate = static_cast<float>(a.learning_rate);
  args.weight_decay = static_cast<float>(a.weight_decay);
  args.eps = static_cast<float>(a.eps);
  args.seed = a.rounding.seed, args.stream = a.rounding.stream;
  args.first_element = static_cast<std::uint64_t>(a.rounding.first_element);
  const kernels::CudaKernels& table = kernels::cuda_kernels();
  const auto launcher = a.exp_avg.scalar_type() == at::kByte ? table.adamw_8bit
                        : bf16_param                         ? table.adamw_rounded
                                                             : table.adamw_bf16_moments;
  ASSERT_EQ(launcher(args, nullptr), 0);
}

void expect_same_state(const AdamW& got, const AdamW& wanted) {
  EXPECT_TRUE(got.param.equal(wanted.param)) << got.param.numel();
  EXPECT_TRUE(got.exp_avg.equal(wanted.exp_avg)) << got.param.numel();
  EXPECT_TRUE(got.exp_avg_sq.equal(wanted.exp_avg_sq)) << got.param.numel();
  if (!got.exp_avg_scales.defined()) return;
  EXPECT_TRUE(got.exp_avg_scales.equal(wanted.exp_avg_scales)) << got.param.numel();
  EXPECT_TRUE(got.exp_avg_sq_scales.equal(wanted.exp_avg_sq_scales)) << got.param.numel();
}

const std::vector<std::pair<DType, DType>> kForms{
    {kBFloat16, at::kByte}, {kBFloat16, kBFloat16}, {kFloat32, kBFloat16}};

TEST(EmulatedAdamW, RoundsToTheNeighboursThatTheCpuTakes) {
  for (const auto& [master, moments] : kForms)
    for (const std::int64_t size : {1, 255, 256, 257, 4099}) {
      const Tensor param = uniforms(1, size).to(kBFloat16).to(master);
      const AdamW gpu = arguments(param, at::zeros({size}, at::kFloat), moments);
      const AdamW cpu = arguments(param, at::zeros({size}, at::kFloat), moments);
      launch(gpu);
      kernels::adamw(cpu);
      expect_same_state(gpu, cpu);
      EXPECT_FALSE(gpu.param.equal(param)) << "the control";
    }
}

// With such betas and gradients the new moments are exact in fp32, on any processor: only what is
// drawn decides their neighbours, and the nearest code is the nearest of the same number.
TEST(EmulatedAdamW, MomentsBecomeWhatTheyDoOnTheCpu) {
  constexpr std::int64_t kSize = 4099;
  const Tensor grad = (uniforms(2, kSize) * 4096).round() / 4096;
  for (const auto& [master, moments] : kForms) {
    const Tensor param = uniforms(1, kSize).to(master);
    AdamW gpu = arguments(param, grad, moments), cpu = arguments(param, grad, moments);
    for (AdamW* one : {&gpu, &cpu}) one->beta1 = 0.75, one->beta2 = 0.5;
    launch(gpu);
    kernels::adamw(cpu);
    gpu.param = cpu.param;  // whose quotient is not exact
    expect_same_state(gpu, cpu);
  }
}

// The fp32 numbers differ in their last bits: a weight or moment by a neighbour (2^-7 of it), a
// code by one.
TEST(EmulatedAdamW, IsTheUpdateOfTheCpu) {
  constexpr std::int64_t kSize = 4099;
  for (const auto& [master, moments] : kForms)
    for (const DType grad : {kFloat32, kBFloat16}) {
      const Tensor param = uniforms(1, kSize).to(master);
      const AdamW gpu = arguments(param, uniforms(2, kSize).to(grad), moments);
      const AdamW cpu = arguments(param, uniforms(2, kSize).to(grad), moments);
      for (const AdamW* one : {&gpu, &cpu}) one->applied_steps.fill_(0);
      launch(gpu);
      kernels::adamw(cpu);
      const auto worst = [](const Tensor& got, const Tensor& wanted) {
        return (got.to(kFloat64) - wanted.to(kFloat64)).abs().max().item<double>();
      };
      EXPECT_LE(worst(gpu.param, cpu.param), 0x1p-7);
      const double step = moments == at::kByte ? 1 : 0x1p-10;  // moments are below 0.1
      EXPECT_LE(worst(gpu.exp_avg, cpu.exp_avg), step);
      EXPECT_LE(worst(gpu.exp_avg_sq, cpu.exp_avg_sq), step);
      EXPECT_GT(worst(gpu.param, param), 0x1p-7) << "the control";
    }
}

// A cut takes the packs away: the second part begins off a multiple of 16 bytes, or has no whole
// number of packs.
TEST(EmulatedAdamW, CutsChangeNothing) {
  constexpr std::int64_t kSize = 2048;
  for (const auto& [master, moments] : kForms)
    for (const std::int64_t cut : {1, 130, 256, 1024}) {
      if (moments == at::kByte && cut % kernels::kCodeBlock != 0) continue;
      const Tensor param = uniforms(1, kSize).to(master), grad = uniforms(2, kSize);
      const AdamW whole = arguments(param, grad, moments), split = arguments(param, grad, moments);
      launch(whole);
      launch(part_of(split, 0, cut));
      launch(part_of(split, cut, kSize));
      expect_same_state(split, whole);
    }
}

TEST(EmulatedAdamW, ABadStepChangesNothing) {
  for (const auto& [master, moments] : kForms) {
    const Tensor param = uniforms(1, 1000).to(master);
    const AdamW args = arguments(param, uniforms(2, 1000), moments);
    const AdamW untouched = arguments(param, uniforms(2, 1000), moments);
    args.grad_scale.fill_(NAN);
    args.apply.fill_(0);
    launch(args);
    expect_same_state(args, untouched);
  }
}

}  // namespace
}  // namespace wmtp::emulated::testing
