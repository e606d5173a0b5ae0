// Moments in 8 bits: the maps, which code a value takes, blocks of every kind and size.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/op_matrix.h"
#include "wmtp/core/checksum.h"
#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/kernels/cpu/code_search.h"
#include "wmtp/kernels/cpu/code_table.h"

namespace wmtp::kernels::testing {
namespace {

std::string hash_of(const void* bytes, std::size_t size) {
  return sha256_hex({static_cast<const char*>(bytes), size});
}

MomentCodes codes_of(Moment moment, const Tensor& values) {
  const MomentCodes made{at::empty({values.numel()}, at::kByte),
                         at::empty({num_code_blocks(values.numel())}, at::kFloat)};
  quantize(moment, values, made);
  return made;
}

Tensor read_back(Moment moment, const MomentCodes& codes, std::int64_t place = 0) {
  const Tensor values = at::empty({codes.codes.numel()}, at::kFloat);
  dequantize(moment, codes, place, values);
  return values;
}

std::vector<int> first_codes(const Tensor& codes, std::int64_t count) {
  std::vector<int> found;
  for (std::int64_t i = 0; i < count; ++i) found.push_back(codes[i].item<int>());
  return found;
}

// The definition, value by value over the whole map.
std::uint8_t nearest_of_all(Moment moment, float y) {
  const DynamicMap& map = code_values(moment);
  std::size_t down = 0;
  for (std::size_t code = 1; code < map.size(); ++code)
    if (map[code] <= y) down = code;
  const std::size_t up = std::min<std::size_t>(down + 1, 255);
  return static_cast<std::uint8_t>(y - map[down] >= (map[up] - map[down]) * 0.5f ? up : down);
}

TEST(MomentCodes, MapsAreThoseOfTorchao) {
  for (const auto& [moment, hash] :
       {std::pair{Moment::first,
                  "e732639a65f497b4ad684bb166a4467708255edd5207757de8b8f0c7e1fda89c"},
        std::pair{Moment::second,
                  "305f002cc11278fb769d13b25b9fd0c7c83c8402c40a878fe086f4039fde6398"}})
    EXPECT_EQ(hash_of(code_values(moment).data(), 1024), hash);
  EXPECT_EQ(code_values(Moment::first)[zero_code(Moment::first)], 0);
  EXPECT_EQ(code_values(Moment::second)[zero_code(Moment::second)], 0);
}

// b_i of torchao's recorded codes; their squares are second moments.
Tensor golden_values() {
  const Tensor values = at::empty({256}, at::kDouble);
  auto* at = values.data_ptr<double>();
  for (int i = 0; i < 256; ++i) at[i] = ((37 * i) % 256 - 128) / 64.0 * std::pow(10.0, -(i % 6));
  return values.to(at::kFloat);
}

TEST(MomentCodes, TakesTheCodesThatTorchaoTook) {
  const Tensor b = golden_values();
  const MomentCodes first = codes_of(Moment::first, b);
  EXPECT_EQ(first.scales[0].item<float>(), 2);
  EXPECT_EQ(first_codes(first.codes, 16), (std::vector{0, 74, 106, 119, 131, 129, 236, 64, 101, 117,
                                                       124, 128, 217, 182, 96, 114}));
  EXPECT_TRUE(hash_of(first.codes.data_ptr(), 256).starts_with("cfc5b71542a096af"));

  const Tensor squares = b * b;
  const MomentCodes second = codes_of(Moment::second, squares);
  EXPECT_EQ(second.scales[0].item<float>(), 4);
  // torchao's, which let small values take 0; ours are at least 1.
  const auto& search = cpu::CodeSearch::of(Moment::second);
  std::vector<std::uint8_t> theirs;
  for (int i = 0; i < 256; ++i) {
    theirs.push_back(search.nearest(squares[i].item<float>() / 4));
    const bool floored = theirs.back() == 0 && squares[i].item<float>() > 0;
    EXPECT_EQ(second.codes[i].item<int>(), floored ? 1 : theirs.back()) << i;
  }
  EXPECT_EQ(std::vector<int>(theirs.begin(), theirs.begin() + 16),
            (std::vector{255, 45, 7, 0, 0, 0, 189, 61, 10, 0, 0, 0, 144, 47, 14, 1}));
  EXPECT_TRUE(hash_of(theirs.data(), 256).starts_with("c57c1674b011cb03"));
}

// Every upper half of an fp32 number, at its two ends and around all values and midpoints.
TEST(MomentCodes, TheSearchFindsWhatTheWholeMapSays) {
  for (const Moment moment : {Moment::first, Moment::second}) {
    const auto& search = cpu::CodeSearch::of(moment);
    for (std::uint32_t upper = 0; upper < 65536; ++upper)
      for (const std::uint32_t lower : {0u, 0xffffu}) {
        const auto y = std::bit_cast<float>(upper << 16 | lower);
        if (upper % 7 != 0 && !(std::abs(y) > 1e-8f && std::abs(y) <= 1)) continue;
        ASSERT_EQ(search.nearest(y), nearest_of_all(moment, y)) << y;
      }
    const DynamicMap& map = code_values(moment);
    for (std::size_t code = 0; code + 1 < map.size(); ++code)
      for (const float at : {map[code], map[code] + 0.5f * (map[code + 1] - map[code])})
        for (const float y : {std::nextafter(at, -2.0f), at, std::nextafter(at, 2.0f)})
          ASSERT_EQ(search.nearest(y), nearest_of_all(moment, y)) << y;
  }
}

// The vectorised bodies look up one code and may step to the next: the ends of all upper halves,
// and every number at which a code begins.
TEST(MomentCodes, TheTableFindsWhatTheSearchFinds) {
  for (const Moment moment : {Moment::first, Moment::second}) {
    const auto& search = cpu::CodeSearch::of(moment);
    const cpu::CodeTable& table = cpu::code_table(moment);
    const auto expect_code = [&](float y) {
      const std::uint8_t code = table.start[std::bit_cast<std::uint32_t>(y) >> 16];
      ASSERT_EQ(code + (table.step[code] <= y ? 1 : 0), search.nearest(y)) << y;
    };
    for (std::uint32_t upper = 0; upper < 65536; ++upper)
      for (const std::uint32_t lower : {0u, 1u, 0x8000u, 0xffffu}) {
        const auto y = std::bit_cast<float>(upper << 16 | lower);
        if (!std::isnan(y) || (upper & 0x40u) != 0) expect_code(y);  // a quotient is no other NaN
      }
    for (std::size_t code = 0; code < 255; ++code)
      for (const float at : {table.step[code], table.values[code], table.values[code + 1]})
        for (const float y : {std::nextafter(at, -2.0f), at, std::nextafter(at, 2.0f)})
          expect_code(y);
  }
}

TEST(MomentCodes, EveryCodeReadsBackAsItself) {
  for (const Moment moment : {Moment::first, Moment::second}) {
    const Tensor values = at::empty({256}, at::kFloat);
    for (int i = 0; i < 256; ++i) values[i] = code_values(moment)[static_cast<std::size_t>(i)];
    const MomentCodes made = codes_of(moment, values * 4);  // the largest value is 1
    EXPECT_TRUE(made.codes.equal(at::arange(256, at::kByte)));
    EXPECT_TRUE(read_back(moment, made).equal(values * 4));
  }
}

TEST(MomentCodes, ZerosAndAllEqual) {
  for (const Moment moment : {Moment::first, Moment::second}) {
    const MomentCodes zeros = codes_of(moment, at::zeros({300}, at::kFloat));
    EXPECT_TRUE(zeros.codes.eq(zero_code(moment)).all().item<bool>());
    EXPECT_TRUE(zeros.scales.eq(1e-12f).all().item<bool>());
    EXPECT_TRUE(read_back(moment, zeros).eq(0).all().item<bool>());
    const MomentCodes equal = codes_of(moment, at::full({300}, 0.3f, at::kFloat));
    EXPECT_TRUE(read_back(moment, equal).eq(0.3f).all().item<bool>());
  }
  // The map has no -1: its least value is that of the code 0.
  const MomentCodes negative = codes_of(Moment::first, at::full({7}, -0.3f, at::kFloat));
  EXPECT_TRUE(negative.codes.eq(0).all().item<bool>());
}

// Below 1e-12 the scale stays: such a block reads back as (nearly) nothing, but its second moments
// still as positive.
TEST(MomentCodes, SubnormalsHaveAHistory) {
  const Tensor tiny = at::full({256}, std::numeric_limits<float>::denorm_min(), at::kFloat);
  const MomentCodes first = codes_of(Moment::first, tiny);
  EXPECT_EQ(first.scales[0].item<float>(), 1e-12f);
  EXPECT_TRUE(first.codes.eq(127).all().item<bool>());
  const MomentCodes second = codes_of(Moment::second, tiny);
  EXPECT_TRUE(second.codes.eq(1).all().item<bool>());
  EXPECT_TRUE(read_back(Moment::second, second).gt(0).all().item<bool>());
}

TEST(MomentCodes, WhatIsNotFiniteStaysInItsBlock) {
  for (const Moment moment : {Moment::first, Moment::second})
    for (const float bad : {NAN, INFINITY}) {
      Tensor values = at::full({768}, 0.25f, at::kFloat);
      values[300] = bad;
      const Tensor back = read_back(moment, codes_of(moment, values));
      EXPECT_FALSE(back.narrow(0, 256, 256).isfinite().any().item<bool>()) << bad;
      EXPECT_TRUE(back.narrow(0, 0, 256).eq(0.25f).all().item<bool>()) << bad;
      EXPECT_TRUE(back.narrow(0, 512, 256).eq(0.25f).all().item<bool>()) << bad;
    }
}

// Every size against the definition; any number of threads; a piece that begins within a block.
TEST(MomentCodes, OfEverySize) {
  for (const std::int64_t size : {1, 63, 64, 65, 255, 256, 257, 16383, 16384, 16385})
    for (const Moment moment : {Moment::first, Moment::second}) {
      Tensor values = normals("moment", {size}, 0.1).to(at::kFloat).contiguous();
      if (moment == Moment::second) values = values.square();
      const MomentCodes made = codes_of(moment, values);
      const auto* x = values.const_data_ptr<float>();
      for (std::int64_t i = 0; i<size; i += size> 1000 ? 61 : 1) {
        const std::int64_t first = i / 256 * 256, count = std::min<std::int64_t>(256, size - first);
        const float scale = values.narrow(0, first, count).abs().max().item<float>();
        ASSERT_EQ(made.scales[i / 256].item<float>(), scale);
        const int code = nearest_of_all(moment, x[i] / scale);
        ASSERT_EQ(made.codes[i].item<int>(), moment == Moment::second ? std::max(1, code) : code)
            << i << " of " << size;
      }
      const Tensor back = read_back(moment, made);
      const std::int64_t from = size / 3;
      const MomentCodes part{made.codes.narrow(0, from, size - from),
                             made.scales.narrow(0, from / 256, num_code_blocks(size) - from / 256)};
      EXPECT_TRUE(read_back(moment, part, from % 256).equal(back.narrow(0, from, size - from)));
    }
}

}  // namespace
}  // namespace wmtp::kernels::testing
