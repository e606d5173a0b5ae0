// The narrow formats of the headers that stand for CUDA's: every number of them, and how fp32
// rounds to them. Nearest, ties to even, worked out in fp64 here.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>

#include "wmtp/core/rng.h"

namespace wmtp::emulated::testing {
namespace {

struct Format {
  int fraction_bits, least_exponent;  // of normal numbers
  double largest;
};
constexpr Format kBf16{7, -126, 0x1.fep127}, kFp16{10, -14, 65504};

// The value of `bits` by its definition; NaN and infinity excepted.
double value_of(const Format& format, unsigned bits) {
  const unsigned exponent = (bits & 0x7fffu) >> format.fraction_bits;
  const unsigned fraction = bits & ((1u << format.fraction_bits) - 1);
  const double significand = fraction + (exponent > 0 ? std::ldexp(1.0, format.fraction_bits) : 0);
  const int power = format.least_exponent - format.fraction_bits +
                    static_cast<int>(exponent > 0 ? exponent - 1 : 0);
  return std::ldexp(bits & 0x8000u ? -significand : significand, power);
}

double rounded(const Format& format, double value) {
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const double ulp = std::ldexp(1.0, exponent - format.fraction_bits);
  const double nearest = std::nearbyint(value / ulp) * ulp;
  return std::abs(nearest) > format.largest ? std::copysign(INFINITY, value) : nearest;
}

template <class Read, class Round>
void expect_format(const Format& format, const Read& read, const Round& round) {
  const unsigned infinity = 0x7fffu >> format.fraction_bits << format.fraction_bits;
  for (unsigned bits = 0; bits <= 0xffffu; ++bits) {
    const float value = read(bits);
    if ((bits & 0x7fffu) > infinity) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(round(value), 0x7fffu) << bits;
      continue;
    }
    if ((bits & 0x7fffu) == infinity)
      EXPECT_EQ(value, bits == infinity ? INFINITY : -INFINITY);
    else
      EXPECT_EQ(value, value_of(format, bits)) << bits;
    EXPECT_EQ(round(value), bits);
  }
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const PhiloxWords words = philox4x32_10(5, 6, i);
    // Any fp32; a neighbour of a number halfway between two of the format; near its subnormals.
    const float halfway = (read(words[0] & 0x7fffu) + read((words[0] & 0x7fffu) + 1)) / 2;
    for (const float value :
         {__uint_as_float(words[1]), halfway, std::nextafter(halfway, 0.0f),
          std::ldexp(__uint_as_float(0x3f800000u | words[2] >> 9), format.least_exponent - 5)}) {
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(read(round(value)), rounded(format, value)) << value;
    }
  }
}

TEST(EmulatedFormats, Bf16) {
  expect_format(
      kBf16, [](unsigned bits) { return __bfloat162float({static_cast<std::uint16_t>(bits)}); },
      [](float value) -> unsigned { return __float2bfloat16_rn(value).bits; });
}

TEST(EmulatedFormats, Fp16) {
  expect_format(
      kFp16, [](unsigned bits) { return __half2float({static_cast<std::uint16_t>(bits)}); },
      [](float value) -> unsigned { return __float2half_rn(value).bits; });
}

}  // namespace
}  // namespace wmtp::emulated::testing
