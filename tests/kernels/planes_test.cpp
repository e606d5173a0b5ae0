// fp32 numbers in planes: that both ways are exact, how they round, and that AdamW has the bits of
// an fp32 master in one tensor; on a GPU too.
#include "wmtp/kernels/codes/planes.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <bit>

#include "support/expect_error.h"
#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/codes/plane_bits.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {
namespace {

constexpr auto kShort = c10::ScalarType::Short;

const c10::Device kPlanesGpu(c10::kCUDA, 0);

Planes empty_planes(const Tensor& whole) {
  return {copied(at::empty(whole.sizes(), whole.options().dtype(kBFloat16))),
          copied(at::empty(whole.sizes(), whole.options().dtype(kShort)))};
}

Planes planes_of(const Tensor& whole) {
  const Planes planes = empty_planes(whole);
  split_planes(whole, planes);
  return planes;
}

Tensor join(const Planes& planes) {
  const Tensor whole =
      copied(at::empty(planes.upper.sizes(), planes.upper.options().dtype(kFloat32)));
  join_planes(planes, whole);
  return whole;
}

struct Golden {
  std::uint32_t bits;
  std::uint16_t upper, lower;
};
constexpr Golden kGoldens[] = {
    {0x3f807fff, 0x3f80, 0x7fff},
    {0x3f808000, 0x3f81, 0x8000},
    {0x3f808001, 0x3f81, 0x8001},
    {0x3f818000, 0x3f82, 0x8000},
    {0xbf808000, 0xbf81, 0x8000},
    {0x00000001, 0x0000, 0x0001},
    {0x00008000, 0x0001, 0x8000},
    {0x80000000, 0x8000, 0x0000},
    {0x3f80ffff, 0x3f81, 0xffff},
    {0x7f7fffff, 0x7f80, 0xffff},
    // Not finite: infinities are exact, a NaN is a quiet one without its lower half.
    {0x7f800000, 0x7f80, 0x0000},
    {0xff800000, 0xff80, 0x0000},
    {0x7fc12345, 0x7fc1, 0x0000},
    {0x7f800001, 0x7fc0, 0x0000},
    {0xff8fffff, 0xffcf, 0x0000},
};

TEST(Planes, Goldens) {
  for (const auto& [bits, upper, lower] : kGoldens) {
    const PlaneBits split = split_bits(bits);
    EXPECT_EQ(split.upper, upper) << std::hex << bits;
    EXPECT_EQ(static_cast<std::uint16_t>(split.lower), lower) << std::hex << bits;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    EXPECT_EQ(joined_bits(split), is_nan ? std::uint32_t{upper} << 16 : bits) << std::hex << bits;
  }
}

// Every upper half beside lower ones around zero, the tie and the ends.
Tensor sweep(c10::Device device) {
  const Tensor upper = at::arange(65536, at::kInt).bitwise_left_shift(16);
  const Tensor lower =
      at::tensor({0, 1, 2, 0x1234, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff}, at::kInt);
  const Tensor bits = upper.unsqueeze(1).bitwise_or(lower.unsqueeze(0)).reshape({-1});
  return copied(bits.view(kFloat32).to(device));
}

void expect_all_back(c10::Device device) {
  const Tensor whole = sweep(device);
  const Planes planes = planes_of(whole);
  const Tensor bits = whole.cpu().view(at::kInt), back = join(planes).cpu().view(at::kInt);
  const Tensor is_nan = whole.cpu().isnan();
  EXPECT_GT(is_nan.sum().item<std::int64_t>(), 1000);
  EXPECT_TRUE(back.masked_fill(is_nan, 0).equal(bits.masked_fill(is_nan, 0)));
  EXPECT_TRUE(join(planes).cpu().isnan().equal(is_nan));
  EXPECT_TRUE(planes.upper.cpu().isnan().equal(is_nan));
}

TEST(Planes, EveryFiniteNumberComesBack) {
  expect_all_back(c10::kCPU);
}

// To nearest even and to nearest away differ where the lower half is 8000 and the upper one even.
void expect_ties_away(c10::Device device) {
  const Tensor whole = sweep(device);
  const Tensor away = empty_planes(whole).upper;
  round_to_compute(whole, away);
  EXPECT_TRUE(away.view(kShort).equal(planes_of(whole).upper.view(kShort)));
  const Tensor tie = whole.cpu().view(at::kInt).bitwise_and(0x1ffff).eq(0x8000);
  const Tensor even = whole.cpu().to(kBFloat16).view(kShort), found = away.cpu().view(kShort);
  const Tensor is_number = whole.cpu().isnan().logical_not();
  EXPECT_TRUE(found.ne(even).logical_and(is_number).equal(tie.logical_and(is_number)));
  EXPECT_TRUE(found.sub(even).masked_select(tie.logical_and(is_number)).eq(1).all().item<bool>());
}

TEST(Planes, OnlyTiesAreRoundedOtherwiseThanPyTorchDoes) {
  expect_ties_away(c10::kCPU);
}

TEST(Planes, OtherDtypesAreCopied) {
  const Tensor wide = normals("wide", {100});
  const auto round_to = [](const Tensor& from, DType dtype) {
    const Tensor out = at::empty(from.sizes(), from.options().dtype(dtype));
    round_to_compute(from, out);
    return out;
  };
  EXPECT_TRUE(bit_equal(round_to(wide, kFloat32), wide.to(kFloat32)));
  EXPECT_TRUE(bit_equal(round_to(wide.to(kFloat32), kFloat16), wide.to(kFloat32).to(kFloat16)));
  EXPECT_TRUE(bit_equal(round_to(wide.to(kBFloat16), kBFloat16), wide.to(kBFloat16)));
}

void expect_edges_back(c10::Device device) {
  for (const std::int64_t size : kEdges)
    for (const bool off : {false, true}) {
      std::optional<OffBoundary> place;
      if (off) place.emplace();
      const Tensor whole = copied(normals("whole", {size}).to(kFloat32).to(device));
      EXPECT_TRUE(bit_equal(join(planes_of(whole)), whole)) << device << " " << size;
    }
}

TEST(Planes, EdgesAndPlacesOffTheBoundary) {
  expect_edges_back(c10::kCPU);
}

TEST(PlanesOnGpu, AreThoseOfTheCpu) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  expect_all_back(kPlanesGpu);
  expect_ties_away(kPlanesGpu);
  expect_edges_back(kPlanesGpu);
  const Tensor whole = sweep(c10::kCPU);
  const Planes wanted = planes_of(whole), found = planes_of(sweep(kPlanesGpu));
  EXPECT_TRUE(found.upper.cpu().view(kShort).equal(wanted.upper.view(kShort)));
  EXPECT_TRUE(found.lower.cpu().equal(wanted.lower));
  const Tensor sent = at::empty(whole.sizes(), at::TensorOptions(kPlanesGpu).dtype(kBFloat16));
  round_to_compute(whole, sent);  // from the host
  EXPECT_TRUE(sent.cpu().view(kShort).equal(wanted.upper.view(kShort)));
}

struct Trained {
  Tensor param, exp_avg, exp_avg_sq, grad;
  Planes planes = {};
};

Trained random_trained(std::int64_t size, DType moments, c10::Device device) {
  const auto to = [&](const Tensor& t, DType dtype) { return copied(t.to(dtype).to(device)); };
  return {to(normals("param", {size}), kFloat32), to(normals("m1", {size}, 0.1), moments),
          to(normals("m2", {size}, 0.1).abs(), moments), to(normals("grad", {size}), kFloat32)};
}

void update(const Trained& state, DType grad, std::int64_t applied_steps, bool bad = false) {
  const auto on_device = state.grad.options();
  const bool in_planes = state.planes.lower.defined();
  AdamW args;
  args.param = in_planes ? state.planes.upper : state.param;
  args.param_lower = state.planes.lower;
  args.grad = copied(state.grad.to(grad));
  args.exp_avg = state.exp_avg, args.exp_avg_sq = state.exp_avg_sq;
  args.learning_rate = 1e-3, args.weight_decay = 0.1;
  args.grad_scale = at::full({}, bad ? NAN : 0.7, on_device);
  args.applied_steps = at::full({}, applied_steps, on_device.dtype(kInt64));
  args.apply = at::full({}, bad ? 0 : 1, on_device.dtype(kInt32));
  args.rounding = {.seed = 9, .stream = 1234, .first_element = 13};
  adamw(args);
}

// A master in planes and in one tensor, with fp32 and with bf16 moments.
void expect_bits_of_one_tensor(std::int64_t size, DType moments, DType grad, c10::Device device) {
  SCOPED_TRACE(device.str() + " " + std::to_string(size) + " " + std::string(name_of(moments)));
  const Trained whole = random_trained(size, moments, device);
  Trained split = random_trained(size, moments, device);
  split.planes = planes_of(split.param);
  for (std::int64_t step = 0; step < 4; ++step)
    for (const Trained* one : {&whole, static_cast<const Trained*>(&split)})
      update(*one, grad, step, /*bad=*/step == 2);
  EXPECT_TRUE(bit_equal(join(split.planes), whole.param));
  EXPECT_FALSE(bit_equal(join(split.planes), split.param)) << "the control";
  EXPECT_TRUE(bit_equal(split.exp_avg, whole.exp_avg));
  EXPECT_TRUE(bit_equal(split.exp_avg_sq, whole.exp_avg_sq));
}

void expect_bits_of_one_tensor(c10::Device device) {
  for (const DType moments : {kFloat32, kBFloat16})
    for (const DType grad : {kFloat32, kBFloat16}) {
      expect_bits_of_one_tensor(100003, moments, grad, device);
      for (const std::int64_t size : kEdges) {
        expect_bits_of_one_tensor(size, moments, grad, device);
        const OffBoundary place;
        expect_bits_of_one_tensor(size, moments, grad, device);
      }
    }
}

TEST(AdamWInPlanes, HasTheBitsOfOneTensor) {
  expect_bits_of_one_tensor(c10::kCPU);
}

// A copy of an fp32 master in bf16 is the plane it would have; all of these weights are ties.
void expect_copy_of_upper_plane(c10::Device device) {
  for (const DType moments : {kFloat32, kBFloat16}) {
    const Trained state = random_trained(1000, moments, device);
    const Tensor bits = state.param.cpu().view(at::kInt).bitwise_and(-0x20000).bitwise_or(0x8000);
    state.param.copy_(bits.view(kFloat32));
    AdamW args;
    args.param = state.param, args.exp_avg = state.exp_avg, args.exp_avg_sq = state.exp_avg_sq;
    args.grad = state.grad;
    args.compute_copy = empty_planes(state.param).upper;
    args.grad_scale = at::full({}, 1.0, state.grad.options());
    args.applied_steps = at::full({}, 0, state.grad.options().dtype(kInt64));
    args.apply = at::full({}, 1, state.grad.options().dtype(kInt32));
    adamw(args);  // with a learning rate of 0
    EXPECT_TRUE(bit_equal(args.compute_copy, planes_of(state.param).upper));
    EXPECT_FALSE(bit_equal(args.compute_copy, state.param.to(kBFloat16))) << "the control";
  }
}

TEST(AdamWInPlanes, ACopyIsTheUpperPlane) {
  expect_copy_of_upper_plane(c10::kCPU);
}

TEST(AdamWInPlanesOnGpu, HasTheBitsOfOneTensor) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  expect_bits_of_one_tensor(kPlanesGpu);
  expect_copy_of_upper_plane(kPlanesGpu);
}

TEST(AdamWInPlanes, WhatDoesNotGoWithThemIsABug) {
  const Trained state = random_trained(8, kFloat32, c10::kCPU);
  AdamW args;
  args.param = planes_of(state.param).upper, args.param_lower = planes_of(state.param).lower;
  args.exp_avg = state.exp_avg, args.exp_avg_sq = state.exp_avg_sq, args.grad = state.grad;
  args.compute_copy = at::empty_like(args.param);
  EXPECT_WMTP_ERROR(adamw(args), ErrorKind::internal, "a copy of a master in planes");
  args.compute_copy = Tensor();
  args.exp_avg = at::empty({8}, at::kByte);
  EXPECT_WMTP_ERROR(adamw(args), ErrorKind::internal, "moments in 8 bits");
  args.param = state.param;
  EXPECT_WMTP_ERROR(adamw(args), ErrorKind::internal, "param is fp32, not bf16");
}

}  // namespace
}  // namespace wmtp::kernels::testing
