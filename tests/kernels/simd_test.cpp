// Every instruction set this processor has, held to the C library in double precision.
#include "wmtp/kernels/cpu/simd/table.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

#include "support/expect_error.h"
#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/codes/plane_bits.h"
#include "wmtp/kernels/cpu/nf4.h"
#include "wmtp/kernels/support/simd_level.h"
#include "wmtp/kernels/swiglu.h"

namespace wmtp::kernels::cpu {
namespace {

class Simd : public ::testing::TestWithParam<int> {
 protected:
  const SimdKernels& kernels() const { return simd_kernels(GetParam()); }
};

std::vector<float> normals(const std::string& name, std::int64_t size, double scale = 1) {
  const Tensor values = kernels::testing::normals(name, {size}, scale).to(kFloat32);
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + size};
}

// silu(x) * 1 over the whole range, so that the exponential is seen at every size.
TEST_P(Simd, TheExponentialIsExactToAFewUnits) {
  constexpr std::int64_t kCount = 20001;
  std::vector<float> gate_up(2 * kCount, 1.0f), out(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) gate_up[i] = static_cast<float>(i - 10000) * 0.0085f;
  kernels().swiglu({gate_up.data(), nullptr, out.data(), 2 * kCount, 0, kCount, kCount}, 0, 1);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double gate = gate_up[i], wanted = gate / (1 + std::exp(-gate));
    EXPECT_NEAR(out[i], wanted, std::abs(wanted) * 5e-7 + 1e-37) << gate;
  }
}

TEST_P(Simd, CrossEntropyOfARowOfAnyLength) {
  for (const std::int64_t size : {1, 2, 15, 16, 17, 63, 64, 65, 1000}) {
    std::vector<float> z = normals("z", size, 5);
    const std::vector<float> logits = z;
    const std::int32_t target = static_cast<std::int32_t>(size / 2);
    float nll = 0, scale = 0.5f;
    kernels().cross_entropy({z.data(), &target, &scale, &nll, nullptr, size, 0, size, 0}, 0, 1);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(nll, std::log(sum) - logits[target], 1e-5) << size;
    for (std::int64_t v = 0; v < size; ++v)
      EXPECT_NEAR(z[v], 0.5 * (std::exp(logits[v]) / sum - (v == target)), 1e-6) << size;
  }
}

// codes/plane_bits.h has the definition, in integers one by one.
TEST_P(Simd, Bf16CopiesAreUpperPlanes) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> param = normals("param", 100);
  const float special[] = {0.0f,
                           -0.0f,
                           infinity,
                           -infinity,
                           1e-40f,
                           3.3e38f,
                           std::bit_cast<float>(0x3f808000u),
                           std::bit_cast<float>(0x3f818000u),
                           std::bit_cast<float>(0xbf808000u),
                           std::bit_cast<float>(0x7f7fffffu),
                           std::numeric_limits<float>::quiet_NaN()};
  std::copy(std::begin(special), std::end(special), param.begin());
  const std::vector<float> before = param;
  std::vector<float> zeros(100), m1(100), m2(100);
  std::vector<Bf16Bits> copy(100);
  AdamWRange range{};
  range.param = param.data(), range.exp_avg = m1.data(), range.exp_avg_sq = m2.data();
  range.grad = zeros.data(), range.upper = copy.data();
  range.keep = 1, range.correction2 = 1, range.eps = 1e-8f, range.grad_scale = 1;
  kernels().adamw(range, 0, 100);
  for (std::size_t i = 0; i < before.size(); ++i) {
    // AdamW computes with a NaN: which one comes out is the processor's choice.
    const std::uint16_t wanted = split_bits(std::bit_cast<std::uint32_t>(param[i])).upper;
    EXPECT_EQ(copy[i], wanted) << before[i];
    EXPECT_TRUE(param[i] == before[i] || std::isnan(before[i])) << before[i];
  }
}

// Every upper half beside lower ones around zero, the tie and the ends, NaNs too.
TEST_P(Simd, AMasterInPlanesIsTheOneInATensor) {
  const std::uint32_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  std::vector<float> param;
  for (std::uint32_t upper = 0; upper <= 0xffff; ++upper)
    for (const std::uint32_t low : lows) param.push_back(std::bit_cast<float>(upper << 16 | low));
  param.resize(param.size() + 5, 1.0f);  // no whole number of vectors
  const auto size = static_cast<std::int64_t>(param.size());
  std::vector<std::uint16_t> upper(param.size()), lower(param.size());
  for (std::size_t i = 0; i < param.size(); ++i) {
    const PlaneBits bits = split_bits(std::bit_cast<std::uint32_t>(param[i]));
    upper[i] = bits.upper, lower[i] = static_cast<std::uint16_t>(bits.lower);
  }
  const std::vector<float> grad = normals("grad", size);
  std::vector<float> m1(param.size()), m2(param.size()), m1_split = m1, m2_split = m2;
  AdamWRange range{};
  range.grad = grad.data();
  range.beta1 = 0.9f, range.beta2 = 0.95f, range.keep = 0.99f, range.rate = 0.1f;
  range.correction2 = 20, range.eps = 1e-8f, range.grad_scale = 0.3f;
  AdamWRange planes = range;
  range.param = param.data(), range.exp_avg = m1.data(), range.exp_avg_sq = m2.data();
  planes.upper = upper.data(), planes.lower = lower.data();
  planes.exp_avg = m1_split.data(), planes.exp_avg_sq = m2_split.data();
  for (int step = 0; step < 2; ++step)
    kernels().adamw(range, 0, size), kernels().adamw(planes, 0, size);
  EXPECT_EQ(m1, m1_split);
  EXPECT_EQ(m2, m2_split);
  for (std::size_t i = 0; i < param.size(); ++i) {
    const PlaneBits wanted = split_bits(std::bit_cast<std::uint32_t>(param[i]));
    ASSERT_EQ(upper[i], wanted.upper) << i;
    ASSERT_EQ(static_cast<std::int16_t>(lower[i]), wanted.lower) << i;
  }
}

// Every byte at every place of a block of any size, and nothing written behind it.
TEST_P(Simd, Nf4HasTheBitsOfTheDefinition) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float scale : {0.0f, 0.3f, 1e-39f, 3e38f, infinity, -infinity,
                            std::bit_cast<float>(0x7fd23456u), std::bit_cast<float>(0xffc00001u)})
    for (std::int64_t size = 0; size <= 64; ++size)
      for (int first = 0; first < 256; first += 19) {
        std::vector<std::uint8_t> packed(32);
        for (std::size_t i = 0; i < 32; ++i) packed[i] = static_cast<std::uint8_t>(first + 41 * i);
        std::vector<float> got(65, 7.0f), wanted = got;
        kernels().nf4_dequantize(packed.data(), scale, size, got.data());
        nf4_dequantize_block(packed.data(), scale, size, wanted.data());
        ASSERT_EQ(std::memcmp(got.data(), wanted.data(), 65 * sizeof(float)), 0)
            << scale << " " << size << " " << first;
      }
}

TEST_P(Simd, WhereARangeBeginsChangesNoBit) {
  const auto run = [&](std::int64_t cut) {
    std::vector<float> param = normals("param", 333), m1(333), m2(333);
    const std::vector<float> grad = normals("grad", 333);
    AdamWRange range{};
    range.param = param.data(), range.exp_avg = m1.data(), range.exp_avg_sq = m2.data();
    range.grad = grad.data();
    range.beta1 = 0.9f, range.beta2 = 0.95f, range.keep = 0.99f, range.rate = 0.1f;
    range.correction2 = 20, range.eps = 1e-8f, range.grad_scale = 0.3f;
    kernels().adamw(range, 0, cut);
    kernels().adamw(range, cut, 333);
    return param;
  };
  const std::vector<float> whole = run(0);
  for (const std::int64_t cut : {1, 7, 16, 100, 332}) EXPECT_EQ(run(cut), whole) << cut;
}

// A processor tested as if it were a lesser one: the ops run the bodies of the level.
TEST(SimdLimit, OpsRunTheBodiesOfTheLevel) {
  const SimdLevel before = simd_level();
  const Tensor gate_up = kernels::testing::normals("gate_up", {1, 130}).to(kFloat32);
  for (int index = 0; index < num_simd_kernels(); ++index) {
    limit_simd(static_cast<SimdLevel>(index));
    EXPECT_EQ(simd_level_name(simd_level()), simd_kernels(index).name);
    const Tensor out = gate_up.new_empty({1, 65}), wanted = gate_up.new_empty({1, 65});
    simd_kernels(index).swiglu(
        {gate_up.data_ptr<float>(), nullptr, wanted.data_ptr<float>(), 130, 0, 65, 65}, 0, 1);
    kernels::swiglu(gate_up, out);
    EXPECT_TRUE(out.equal(wanted)) << index;
  }
  limit_simd(before);
}

TEST(SimdLimit, WhatTheProcessorLacksIsRefused) {
  const SimdLevel before = simd_level();
  for (int index = num_simd_kernels(); index < 3; ++index)
    EXPECT_WMTP_ERROR(limit_simd(static_cast<SimdLevel>(index)), ErrorKind::config,
                      "is not on this processor");
  EXPECT_WMTP_ERROR(simd_level_from_name("sse9"), ErrorKind::config, "'sse9' is no instruction");
  EXPECT_EQ(simd_level(), before);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Simd, ::testing::Range(0, num_simd_kernels()),
                         [](const auto& test) { return simd_kernels(test.param).name; });

}  // namespace
}  // namespace wmtp::kernels::cpu
