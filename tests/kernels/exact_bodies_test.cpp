// The vectorised AdamW on bf16 masters and moments and on moments in 8 bits: under every
// instruction set of this processor the bits are those of the definition.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/kernels/op_matrix.h"
#include "wmtp/core/rng.h"
#include "wmtp/kernels/codes/planes.h"
#include "wmtp/kernels/cpu/code_table.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/simd/table.h"
#include "wmtp/kernels/support/simd_level.h"

namespace wmtp::kernels::testing {
namespace {

enum class Master { bf16, fp32, planes };
enum class Moments { bf16, codes };
enum class Numbers { plain, of_any_kind };

struct ExactCase {
  Moments moments = Moments::bf16;
  Master master = Master::bf16;
  DType grad = kFloat32;
  std::int64_t size = 1, first_element = 0;
  Numbers numbers = Numbers::plain;
};

void PrintTo(const ExactCase& c, std::ostream* out) {
  *out << fmt::format("moments {} master {} grad {} size {} first {} numbers {}",
                      static_cast<int>(c.moments), static_cast<int>(c.master),
                      c10::toString(c.grad), c.size, c.first_element, static_cast<int>(c.numbers));
}

constexpr std::uint32_t kSpecialBits[] = {
    0x00000000u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7fd23456u, 0xffe54321u,
    0x7f7fffffu, 0xff7fffffu, 0x7f7f8000u, 0x00000001u, 0x80000001u, 0x007fffffu, 0x807fffffu,
    0x00800000u, 0x00400000u, 0x3f7fffffu, 0x3f808000u, 0x5f000000u, 0xdf800000u, 0x1e000000u};

// A quarter each: special numbers, any bits there are, and twice numbers around one.
float number_of_any_kind(const PhiloxWords& words) {
  if (words[0] % 4 == 0) return std::bit_cast<float>(kSpecialBits[words[1] % 21]);
  if (words[0] % 4 == 1) return std::bit_cast<float>(words[1]);
  return static_cast<float>(static_cast<std::int32_t>(words[1])) * 0x1p-30f;
}

Tensor numbers(const std::string& name, const ExactCase& c, double scale = 1) {
  if (c.numbers == Numbers::plain) return normals(name, {c.size}, scale).to(kFloat32);
  const Tensor values = at::empty({c.size}, kFloat32);
  const std::uint64_t stream = stream_id(name);
  for (std::int64_t i = 0; i < c.size; ++i)
    values.data_ptr<float>()[i] =
        number_of_any_kind(philox4x32_10(5, stream, static_cast<std::uint64_t>(i)));
  return values;
}

struct ExactState {
  Tensor param, lower, grad, exp_avg, exp_avg_sq, exp_avg_scales, exp_avg_sq_scales;

  ExactState clone() const {
    const auto one = [](const Tensor& t) { return t.defined() ? t.clone() : t; };
    return {one(param),
            one(lower),
            one(grad),
            one(exp_avg),
            one(exp_avg_sq),
            one(exp_avg_scales),
            one(exp_avg_sq_scales)};
  }
};

void set_coded_moments(const ExactCase& c, ExactState& state) {
  const auto bytes = at::TensorOptions().dtype(at::kByte);
  state.exp_avg = at::empty({c.size}, bytes), state.exp_avg_sq = at::empty({c.size}, bytes);
  for (std::int64_t i = 0; i < c.size; ++i) {
    const PhiloxWords words = philox4x32_10(6, 7, static_cast<std::uint64_t>(i));
    state.exp_avg.data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(words[0]);
    state.exp_avg_sq.data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(words[1]);
  }
  ExactCase scales = c;
  scales.size = num_code_blocks(c.size);
  state.exp_avg_scales = numbers("s1", scales, 0.1).abs();
  state.exp_avg_sq_scales = numbers("s2", scales, 0.01).abs();
}

ExactState state_of(const ExactCase& c) {
  ExactState state;
  const Tensor param = numbers("param", c);
  state.grad = numbers("grad", c).to(c.grad);
  state.param = c.master == Master::fp32 ? param : param.to(kBFloat16);
  if (c.master == Master::planes) {
    state.lower = at::empty({c.size}, at::kShort);
    split_planes(param, {state.param, state.lower});
  }
  state.exp_avg = numbers("m1", c, 0.1).to(kBFloat16);
  state.exp_avg_sq = numbers("m2", c, 0.1).abs().to(kBFloat16);
  if (c.moments == Moments::codes) set_coded_moments(c, state);
  return state;
}

AdamW arguments_of(const ExactState& state, std::int64_t first_element, std::int64_t applied) {
  AdamW args;
  args.param = state.param, args.param_lower = state.lower, args.grad = state.grad;
  args.exp_avg = state.exp_avg, args.exp_avg_sq = state.exp_avg_sq;
  args.exp_avg_scales = state.exp_avg_scales, args.exp_avg_sq_scales = state.exp_avg_sq_scales;
  args.learning_rate = 3e-3, args.beta1 = 0.9, args.beta2 = 0.95, args.weight_decay = 0.1;
  args.grad_scale = at::full({}, 0.7, kFloat32);
  args.applied_steps = at::full({}, applied, kInt64);
  args.apply = at::full({}, 1, kInt32);
  args.rounding = {
      .seed = 0x1234567890abcdefu, .stream = 0xfedcba0987654321u, .first_element = first_element};
  return args;
}

void define(const AdamW& args) {
  args.exp_avg.scalar_type() == at::kByte ? cpu::adamw_8bit(args) : cpu::adamw_rounded(args);
}

template <class Bits>
std::int64_t first_difference(const Tensor& got, const Tensor& wanted) {
  const auto* a = static_cast<const Bits*>(got.const_data_ptr());
  const auto* b = static_cast<const Bits*>(wanted.const_data_ptr());
  return std::mismatch(a, a + got.numel(), b).first - a;
}

// The first place where the bits differ, or the size. Where NaNs of several kinds meet in one
// element the processor takes that of the operand which the compiler put first, so that `any_nan`
// takes every NaN of a weight or a scale for the same.
std::int64_t place_of_difference(const Tensor& got, const Tensor& wanted, bool any_nan) {
  if (!got.defined()) return -1;
  const auto one_nan = [&](const Tensor& t) {
    return any_nan && t.is_floating_point() ? t.where(t.eq(t), at::full({}, NAN, t.options())) : t;
  };
  const Tensor a = one_nan(got), b = one_nan(wanted);
  const std::int64_t place = a.element_size() == 4   ? first_difference<std::uint32_t>(a, b)
                             : a.element_size() == 2 ? first_difference<std::uint16_t>(a, b)
                                                     : first_difference<std::uint8_t>(a, b);
  return place == a.numel() ? -1 : place;
}

void expect_same_bits(const ExactState& got, const ExactState& wanted, const ExactCase& c,
                      bool any_nan) {
  const std::string name = ::testing::PrintToString(c);
  const auto place = [&](auto field, bool of_any_nan = false) {
    return place_of_difference(got.*field, wanted.*field, of_any_nan);
  };
  // What is rounded to bf16 has one NaN.
  EXPECT_EQ(place(&ExactState::param, any_nan && c.master != Master::bf16), -1) << name;
  EXPECT_EQ(place(&ExactState::lower), -1) << name;
  EXPECT_EQ(place(&ExactState::exp_avg), -1) << name;
  EXPECT_EQ(place(&ExactState::exp_avg_sq), -1) << name;
  EXPECT_EQ(place(&ExactState::exp_avg_scales, any_nan), -1) << name;
  EXPECT_EQ(place(&ExactState::exp_avg_sq_scales, any_nan), -1) << name;
}

void expect_bits_of_definition(const ExactCase& c, int num_steps) {
  const ExactState got = state_of(c), wanted = got.clone(), before = got.clone();
  for (int step = 0; step < num_steps; ++step) {
    adamw(arguments_of(got, c.first_element, step));
    define(arguments_of(wanted, c.first_element, step));
    expect_same_bits(got, wanted, c, c.numbers != Numbers::plain);
  }
  if (c.numbers == Numbers::plain && c.size > 10) {
    EXPECT_GE(place_of_difference(got.param, before.param, false), 0) << "the control";
  }
}

std::vector<ExactCase> kinds() {
  std::vector<ExactCase> all;
  for (const DType grad : {kFloat32, kBFloat16})
    for (const Numbers numbers : {Numbers::plain, Numbers::of_any_kind}) {
      for (const Master master : {Master::bf16, Master::fp32, Master::planes})
        all.push_back({Moments::bf16, master, grad, 1, 0, numbers});
      for (const Master master : {Master::bf16, Master::fp32})
        all.push_back({Moments::codes, master, grad, 1, 0, numbers});
    }
  return all;
}

// Ops run the bodies of each instruction set in turn.
class ExactBodies : public ::testing::TestWithParam<int> {
 protected:
  ExactBodies() { limit_simd(static_cast<SimdLevel>(GetParam())); }
  ~ExactBodies() override { limit_simd(before_); }

 private:
  SimdLevel before_ = simd_level();
};

// Counters cross 2^32 and lie above it; the range begins at either element of a call.
TEST_P(ExactBodies, EveryKindOverSeveralSteps) {
  for (ExactCase c : kinds())
    for (const std::int64_t first : {0L, 1L, (1L << 33) - 701, (1L << 40) + 6}) {
      c.size = 2503, c.first_element = first;
      expect_bits_of_definition(c, 3);
    }
}

TEST_P(ExactBodies, EveryTail) {
  const std::vector<ExactCase> all = kinds();
  std::size_t turn = 0;
  const auto next = [&](std::int64_t size) {
    ExactCase c = all[turn % all.size()];
    c.size = size, c.first_element = static_cast<std::int64_t>(turn / all.size() % 2);
    expect_bits_of_definition(c, 1);
    ++turn;
  };
  for (std::int64_t size = 1; size <= 3000; size += size < 601 ? 2 : 38) next(size);
  // Every size up to two vectors, each kind and parity.
  for (std::int64_t size = 1; size <= 33; ++size)
    for (std::size_t i = 0; i < 2 * all.size(); ++i) next(size);
}

// A part of a thread begins anywhere.
TEST_P(ExactBodies, EveryCutForThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  for (ExactCase c : kinds()) {
    c.size = 70001, c.first_element = 7;
    expect_bits_of_definition(c, 1);
  }
  at::set_num_threads(before);
}

// One NaN among the operands of an element: its payload comes through as the definition has it.
TEST_P(ExactBodies, NaNsKeepTheirPayload) {
  for (ExactCase c : kinds()) {
    if (c.numbers != Numbers::plain) continue;
    c.size = 777, c.first_element = 3;
    const ExactState got = state_of(c);
    for (std::int64_t i = 0; i < c.size; i += 5) {
      const auto bits = static_cast<std::int32_t>((i % 2 ? 0xffc00000u : 0x7fc00000u) + 65537 * i);
      const Tensor& to = i % 3 == 0 && c.master == Master::fp32 ? got.param : got.grad;
      const bool whole = to.element_size() == 4;
      to.view(whole ? at::kInt : at::kShort)[i] = whole ? bits : bits >> 16;
    }
    const ExactState wanted = got.clone();
    adamw(arguments_of(got, 3, 0));
    define(arguments_of(wanted, 3, 0));
    expect_same_bits(got, wanted, c, false);
    EXPECT_TRUE(got.param.isnan().any().item<bool>());
  }
}

// With beta1 = 0 the first moment is the gradient, and beside a 1 in its block that is what is
// looked up: the numbers at which a code begins, and the ones beside them.
TEST_P(ExactBodies, CodesBeginWhereTheDefinitionHasThem) {
  const cpu::CodeTable& table = cpu::code_table(Moment::first);
  std::vector<float> looked_up;
  for (int code = 0; code < 255; ++code)
    for (const float at : {table.step[code], table.values[code], -table.step[code]})
      for (const float y : {std::nextafter(at, -2.0f), at, std::nextafter(at, 2.0f)}) {
        if (looked_up.size() % 256 == 0) looked_up.push_back(1.0f);
        looked_up.push_back(y);
      }
  ExactCase c{
      Moments::codes, Master::fp32, kFloat32, static_cast<std::int64_t>(looked_up.size()), 0,
      Numbers::plain};
  const ExactState got = state_of(c);
  std::copy(looked_up.begin(), looked_up.end(), got.grad.data_ptr<float>());
  const ExactState wanted = got.clone();
  for (const ExactState* state : {&got, &wanted}) {
    AdamW args = arguments_of(*state, 0, 0);
    args.beta1 = 0, args.grad_scale.fill_(1.0);
    state == &got ? adamw(args) : define(args);
  }
  expect_same_bits(got, wanted, c, false);
  EXPECT_TRUE(got.exp_avg_scales.eq(1).all().item<bool>()) << "the control";
}

// Blocks whose largest number is zero, subnormal, below the least scale and just above it: the
// scale has a floor, and a second moment above zero is never forgotten.
TEST_P(ExactBodies, BlocksOfNearlyNothing) {
  for (const float largest : {0.0f, 1e-45f, 1e-30f, 3e-12f, 4e-12f, 1e-5f}) {
    ExactCase c{Moments::codes, Master::fp32, kFloat32, 300, 0, Numbers::plain};
    const ExactState got = state_of(c);
    got.grad.clamp_(-1, 1).mul_(largest);
    got.exp_avg_scales.zero_(), got.exp_avg_sq_scales.zero_();
    const ExactState wanted = got.clone();
    for (int step = 0; step < 2; ++step) {
      adamw(arguments_of(got, 0, step));
      define(arguments_of(wanted, 0, step));
      expect_same_bits(got, wanted, c, false);
    }
    EXPECT_EQ(got.exp_avg_sq_scales.eq(1e-12f).all().item<bool>(), largest < 1e-6f);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ExactBodies, ::testing::Range(0, cpu::num_simd_kernels()),
                         [](const auto& test) { return cpu::simd_kernels(test.param).name; });

}  // namespace
}  // namespace wmtp::kernels::testing
