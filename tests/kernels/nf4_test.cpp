// NF4 held to golden values of bitsandbytes, to its definition written out slowly, and to the laws
// that sharding rests on: any stretch of whole blocks has the bits of the whole.
#include "wmtp/kernels/nf4.h"

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "support/expect_error.h"
#include "tests/kernels/op_matrix.h"
#include "wmtp/core/checksum.h"
#include "wmtp/kernels/codes/dynamic_map.h"

namespace wmtp::kernels::testing {
namespace {

constexpr DType kByte = c10::ScalarType::Byte;
const std::vector<std::int64_t> kSizes{1,   2,   63,  64,    65,    127,  128,
                                       255, 256, 257, 16383, 16384, 16385};

std::string_view bytes_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::string digest(const Tensor& tensor) {
  return sha256_hex(bytes_of(tensor)).substr(0, 16);
}

struct Quantized {
  Tensor packed, absmax;
};

Quantized quantize(const Tensor& values) {
  Quantized out{at::empty({nf4_bytes(values.numel())}, kByte),
                at::empty({nf4_blocks(values.numel())}, kFloat32)};
  EXPECT_EQ(nf4_quantize(values, out.packed, out.absmax), -1);
  return out;
}

Tensor dequantize(const Tensor& packed, const Nf4Scales& scales, std::int64_t size, DType dtype) {
  const Tensor out = at::empty({size}, dtype);
  nf4_dequantize(packed, scales, out);
  return out;
}

Tensor round_trip(const Tensor& values, DType dtype) {
  const Quantized first = quantize(values);
  return dequantize(first.packed, nf4_quantize_scales(first.absmax), values.numel(), dtype);
}

// 256 x 256: w = u (1 + row / 64), u from a multiplicative sequence.
Tensor golden_matrix() {
  const Tensor values = at::empty({256 * 256}, kFloat32);
  auto* w = values.data_ptr<float>();
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const std::uint32_t k = 2654435761u * i + 12345u;
    const auto u = static_cast<float>((k / 4294967296.0 - 0.5) * 0.1);
    const volatile float factor = 1 + static_cast<float>(i / 256) / 64;
    w[i] = u * factor;
  }
  return values;
}

TEST(DynamicMap, HasTheBitsOfTheLibraries) {
  auto digest_of = [](const DynamicMap& map) {
    return sha256_hex({reinterpret_cast<const char*>(map.data()), sizeof(map)});
  };
  EXPECT_EQ(digest_of(signed_dynamic_map()),
            "e732639a65f497b4ad684bb166a4467708255edd5207757de8b8f0c7e1fda89c");
  EXPECT_EQ(digest_of(unsigned_dynamic_map()),
            "305f002cc11278fb769d13b25b9fd0c7c83c8402c40a878fe086f4039fde6398");
}

TEST(Nf4, ABlockOfKnownBytes) {
  const Tensor x = (at::arange(64, kFloat32) - 20) / 16;
  const Quantized out = quantize(x);
  EXPECT_EQ(out.absmax.item<float>(), 2.6875f);
  EXPECT_EQ(to_hex({out.packed.const_data_ptr<std::uint8_t>(), 32}),
            "23333344445555566667778888999aaaabbbbcccccddddddeeeeeeeeeeffffff");
  const Tensor back = dequantize(out.packed, {.codes = out.absmax}, 64, kFloat32);
  EXPECT_EQ(back[0].item<float>(), -1.4111337661743164f);
  EXPECT_EQ(back[1].item<float>(), -1.0613408088684082f);
}

TEST(Nf4, AMatrixOfKnownBytesAndScales) {
  const Tensor w = golden_matrix();
  ASSERT_EQ(digest(w), "d7dbcf5b846d0e19");
  const Quantized first = quantize(w);
  EXPECT_EQ(to_hex({first.packed.const_data_ptr<std::uint8_t>(), 8}), "0a2e61c3f91d50b3");
  EXPECT_EQ(digest(first.packed), "c7c52e589f594141");
  const Nf4Scales scales = nf4_quantize_scales(first.absmax);
  EXPECT_EQ(scales.offset, 0.14833010733127594f);
  const float group_max[] = {0.0988328754901886f, 0.0502605065703392f, 0.050778403878211975f,
                             0.1002381443977356f};
  for (int group = 0; group < 4; ++group)
    EXPECT_EQ(scales.group_max[group].item<float>(), group_max[group]);
  const std::pair<int, int> codes[] = {{0, 0},    {255, 35},  {256, 0},   {511, 95},
                                       {512, 94}, {700, 235}, {1023, 254}};
  for (const auto& [block, code] : codes) EXPECT_EQ(scales.codes[block].item<int>(), code) << block;
  EXPECT_EQ(digest(scales.codes), "021e8f7d52ef2971");
  const Tensor restored = nf4_scales(scales);
  EXPECT_EQ(restored[0].item<float>(), 0.050192154943943024f);
  EXPECT_EQ(restored[1023].item<float>(), 0.24786344170570374f);
  EXPECT_EQ(digest(dequantize(first.packed, scales, w.numel(), kFloat32)), "700869801e484746");
}

TEST(Nf4, AMatrixThatWasRoundedToBf16First) {
  const Tensor w = golden_matrix().to(kBFloat16).to(kFloat32);
  EXPECT_EQ(digest(quantize(w).packed), "c679d3343b1ccec9");
  EXPECT_EQ(digest(round_trip(w, kBFloat16)), "920a7835d93fb9c2");
}

// One element after the other, from the table alone.
int index_by_definition(float x, float absmax) {
  const volatile float reciprocal = 1.0f / std::max(absmax, 1e-38f);
  const volatile float scaled = x * reciprocal;
  int index = 0;
  for (std::size_t i = 0; i + 1 < nf4_table().size(); ++i) {
    const double middle =
        (static_cast<double>(nf4_table()[i]) + static_cast<double>(nf4_table()[i + 1])) / 2;
    if (static_cast<float>(middle) < scaled) ++index;
  }
  return index;
}

void expect_first_level_of(const Tensor& values, const std::string& what) {
  const Quantized out = quantize(values);
  const auto* x = values.const_data_ptr<float>();
  const auto* bytes = out.packed.const_data_ptr<std::uint8_t>();
  const std::int64_t size = values.numel();
  for (std::int64_t begin = 0; begin < size; begin += kNf4Block) {
    const std::int64_t end = std::min(size, begin + kNf4Block);
    float absmax = 0;
    for (std::int64_t i = begin; i < end; ++i) absmax = std::max(absmax, std::abs(x[i]));
    EXPECT_EQ(out.absmax[begin / kNf4Block].item<float>(), absmax) << what;
    for (std::int64_t i = begin; i < end; ++i)
      ASSERT_EQ(i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4, index_by_definition(x[i], absmax))
          << what << ", element " << i << ": " << x[i] << " of " << absmax;
  }
  if (size % 2) {
    EXPECT_EQ(bytes[size / 2] & 15, 7) << what;
  }
}

TEST(Nf4, FirstLevelOfAnySize) {
  for (const std::int64_t size : kSizes)
    expect_first_level_of(normals("x", {size}, 0.02).to(kFloat32), std::to_string(size));
}

TEST(Nf4, FirstLevelOfEveryBf16Number) {
  std::vector<float> finite;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
    if (const auto value = std::bit_cast<float>(bits << 16); std::isfinite(value))
      finite.push_back(value);
  ASSERT_EQ(finite.size(), 65280u);
  // In order a block has one exponent; strided, it has all of them.
  const Tensor in_order =
      at::from_blob(finite.data(), {static_cast<std::int64_t>(finite.size())}, kFloat32).clone();
  expect_first_level_of(in_order, "in order");
  expect_first_level_of(in_order.view({64, -1}).t().contiguous().view({-1}), "strided");
}

TEST(Nf4, BlocksOfZerosOfOneValueAndOfSubnormals) {
  const Quantized zeros = quantize(at::zeros({128}, kFloat32));
  EXPECT_TRUE(zeros.packed.eq(0x77).all().item<bool>());
  EXPECT_TRUE(zeros.absmax.eq(0).all().item<bool>());
  const Quantized equal = quantize(at::full({64}, -0.3, kFloat32));
  EXPECT_TRUE(equal.packed.eq(0x00).all().item<bool>());
  EXPECT_EQ(equal.absmax.item<float>(), 0.3f);
  for (const float tiny : {1.4e-45f, 1e-42f, 2e-39f, 9e-39f, 1.2e-38f})
    expect_first_level_of(normals("x", {64}).to(kFloat32) * tiny, "subnormals");
}

TEST(Nf4, AnElementThatIsNotFiniteIsFound) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()})
    for (const std::int64_t place : {0, 63, 64, 70001, 199999}) {
      Tensor values = normals("x", {200000}).to(kFloat32);
      values[place] = bad;
      if (place < 199999) values[199999] = bad;
      EXPECT_EQ(nf4_quantize(values, at::empty({100000}, kByte), at::empty({3125}, kFloat32)),
                place);
    }
}

// The nearest entry by trying all of them, the first of two that are equally near.
int code_by_definition(float value, float group_max) {
  const volatile float reciprocal = 1.0f / std::max(group_max, 1e-38f);
  const volatile float scaled = value * reciprocal;
  const double wanted = scaled;
  int best = 0;
  for (int code = 1; code < 256; ++code)
    if (std::abs(signed_dynamic_map()[code] - wanted) <
        std::abs(signed_dynamic_map()[best] - wanted))
      best = code;
  return best;
}

TEST(Nf4, SecondLevelTakesTheNearestCode) {
  for (const std::int64_t blocks : kSizes) {
    const Tensor absmax = normals("a", {blocks}).to(kFloat32).abs();
    const Nf4Scales scales = nf4_quantize_scales(absmax);
    const auto* a = absmax.const_data_ptr<float>();
    double sum = 0;
    for (std::int64_t i = 0; i < blocks; ++i) sum += a[i];
    ASSERT_EQ(scales.offset, static_cast<float>(sum / static_cast<double>(blocks)));
    for (std::int64_t i = 0; i < blocks; ++i) {
      const float group_max = scales.group_max[i / kNf4Group].item<float>();
      const volatile float z = a[i] - scales.offset;
      ASSERT_LE(std::abs(z), group_max);
      ASSERT_EQ(scales.codes[i].item<int>(), code_by_definition(z, group_max)) << blocks;
    }
  }
}

TEST(Nf4, ScalesThatAreAllEqualComeBackExactly) {
  const Nf4Scales scales = nf4_quantize_scales(at::full({300}, 0.7, kFloat32));
  EXPECT_TRUE(scales.codes.eq(127).all().item<bool>());
  EXPECT_TRUE(scales.group_max.eq(0).all().item<bool>());
  EXPECT_TRUE(nf4_scales(scales).eq(0.7f).all().item<bool>());
}

// A scale of every bf16 number, infinities and NaN too, with every index.
TEST(Nf4, ProductsAreRoundedOnceToNearestEven) {
  const Tensor scales = at::empty({65536}, kFloat32);
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    scales.data_ptr<float>()[bits] = std::bit_cast<float>(bits << 16) * 1.00390625f;
  const Tensor packed = at::arange(65536 * 32, at::kInt).remainder(256).to(kByte);
  const Tensor wide = dequantize(packed, {.codes = scales}, 65536 * 64, kFloat32);
  const Tensor index = at::stack({packed.bitwise_right_shift(4), packed.bitwise_and(15)}, 1);
  const Tensor table = at::tensor(c10::ArrayRef<float>(nf4_table().data(), 16));
  const Tensor expected =
      table.index_select(0, index.view({-1}).to(at::kInt)).view({65536, 64}) * scales.unsqueeze(1);
  EXPECT_TRUE(at::allclose(wide.view({65536, 64}), expected, 0, 0, /*equal_nan=*/true));
  const Tensor narrow = dequantize(packed, {.codes = scales}, 65536 * 64, kBFloat16);
  EXPECT_TRUE(at::allclose(narrow.to(kFloat32), wide.to(kBFloat16).to(kFloat32), 0, 0, true));
  const Tensor half = dequantize(packed, {.codes = scales}, 65536 * 64, kFloat16);
  EXPECT_TRUE(at::allclose(half.to(kFloat32), wide.to(kFloat16).to(kFloat32), 0, 0, true));
  const Tensor twice = dequantize(packed, {.codes = scales}, 65536 * 64, kFloat64);
  EXPECT_TRUE(at::allclose(twice, wide.to(kFloat64), 0, 0, true));
}

TEST(Nf4, AnyStretchOfBlocksHasTheBitsOfTheWhole) {
  constexpr std::int64_t kSize = 3 * 16384 + 640;
  const Tensor values = normals("w", {kSize}).to(kFloat32);
  const Quantized whole = quantize(values);
  const Nf4Scales scales = nf4_quantize_scales(whole.absmax);
  const Tensor expected = dequantize(whole.packed, scales, kSize, kFloat32);
  for (const std::int64_t begin : {0, 64, 16320, 16384, 16448, 49152, 49728})
    for (const std::int64_t size : {64, 128, 16384, 20480}) {
      if (begin + size > kSize) continue;
      const Quantized part = quantize(values.narrow(0, begin, size));
      EXPECT_TRUE(bit_equal(part.packed, whole.packed.narrow(0, begin / 2, size / 2)));
      const Nf4Scales stretch = nf4_stretch(scales, begin / 64, size / 64);
      const Tensor out = dequantize(part.packed, stretch, size, kFloat32);
      EXPECT_TRUE(bit_equal(out, expected.narrow(0, begin, size))) << begin << " " << size;
      const Nf4Scales inner = nf4_stretch(stretch, begin / 64 + size / 128, size / 128);
      EXPECT_TRUE(
          bit_equal(nf4_scales(inner), nf4_scales(stretch).narrow(0, size / 128, size / 128)));
    }
}

TEST(Nf4, TheNumberOfThreadsChangesNothing) {
  const Tensor values = normals("w", {1 << 18}).to(kFloat32);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor alone = round_trip(values, kBFloat16);
  at::set_num_threads(5);
  const Tensor together = round_trip(values, kBFloat16);
  at::set_num_threads(before);
  EXPECT_TRUE(bit_equal(alone, together));
}

TEST(Nf4, ArgumentsThatDoNotFitAreRefused) {
  const Quantized out = quantize(normals("w", {16448}).to(kFloat32));
  const Nf4Scales scales = nf4_quantize_scales(out.absmax);
  EXPECT_WMTP_ERROR(dequantize(out.packed, scales, 16000, kFloat32), ErrorKind::internal,
                    "packed has shape");
  EXPECT_WMTP_ERROR(dequantize(out.packed, nf4_stretch(scales, 0, 256), 16448, kFloat32),
                    ErrorKind::internal, "scales has shape");
  EXPECT_WMTP_ERROR(dequantize(out.packed, scales, 16448, c10::ScalarType::Float8_e4m3fn),
                    ErrorKind::internal, "none of fp32");
}

}  // namespace
}  // namespace wmtp::kernels::testing
