// Float8: conversion and scales against exact arithmetic, the forms of an operand, and products
// against fp64 of the quantised operands.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/tolerance.h"
#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/float8.h"

namespace wmtp::kernels::testing {
namespace {

constexpr Float8Format kFormats[] = {Float8Format::e4m3, Float8Format::e5m2};
constexpr Float8Recipe kRecipes[] = {Float8Recipe::tensorwise, Float8Recipe::rowwise};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kQuietNaN = std::numeric_limits<float>::quiet_NaN();

// The number a code stands for, by its fields; a NaN for those that are not finite.
double value_of(int code, Float8Format format) {
  const int fraction_bits = format == Float8Format::e4m3 ? 3 : 2;
  const int bias = format == Float8Format::e4m3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> fraction_bits;
  const int fraction = code & ((1 << fraction_bits) - 1);
  const double size = std::ldexp(fraction + (exponent > 0 ? 1 << fraction_bits : 0),
                                 std::max(exponent, 1) - bias - fraction_bits);
  if (size > largest_of(format)) return kQuietNaN;
  return code & 0x80 ? -size : size;
}

// Of all codes the one whose number is nearest, the even one of two: what "nearest" means.
int nearest_code(float x, Float8Format format) {
  if (std::isnan(x)) return 0x7f;
  int best = 0;
  for (int code = 1; code < 0x80; ++code) {
    const double size = std::min<double>(std::fabs(x), largest_of(format));
    const double here = std::fabs(size - value_of(code, format));
    const double there = std::fabs(size - value_of(best, format));
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(x) ? 0x80 : 0);
}

float from_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

std::vector<int> bytes_of(const Tensor& values) {
  const auto* const bytes = static_cast<const std::uint8_t*>(values.const_data_ptr());
  return {bytes, bytes + values.numel()};
}

TEST(Float8, GoldenConversions) {
  struct Golden {
    double value;
    int e4m3, e5m2;
  };
  const Golden goldens[] = {
      {1, 0x38, 0x3c},           {1.0625, 0x38, 0x3c},    {1.1875, 0x3a, 0x3d},
      {-3.3, 0xc5, 0xc3},        {17, 0x58, 0x4c},        {18, 0x59, 0x4c},
      {19, 0x5a, 0x4d},          {240, 0x77, 0x5c},       {464, 0x7e, 0x5f},
      {465, 0x7e, 0x5f},         {500, 0x7e, 0x60},       {0x1p-6, 0x08, 0x24},
      {0x1p-9, 0x01, 0x18},      {0x1p-10, 0x00, 0x14},   {1.5 * 0x1p-10, 0x01, 0x16},
      {3 * 0x1p-10, 0x02, 0x1a}, {1e-4, 0x00, 0x07},      {61440, 0x7e, 0x7b},
      {-0.0, 0x80, 0x80},        {kInfinity, 0x7e, 0x7b}, {-kInfinity, 0xfe, 0xfb}};
  for (const auto& [value, e4m3, e5m2] : goldens) {
    EXPECT_EQ(float8_of(static_cast<float>(value), Float8Format::e4m3), e4m3) << value;
    EXPECT_EQ(float8_of(static_cast<float>(value), Float8Format::e5m2), e5m2) << value;
  }
  for (const Float8Format format : kFormats)
    for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u})
      EXPECT_EQ(float8_of(from_bits(bits), format), 0x7f);
}

TEST(Float8, EveryBf16NumberTakesTheNearestCode) {
  for (const Float8Format format : kFormats)
    for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
      ASSERT_EQ(float8_of(from_bits(upper << 16), format),
                nearest_code(from_bits(upper << 16), format))
          << std::hex << upper;
}

// Around every boundary between two codes, and around every code: what fp32 adds to bf16.
TEST(Float8, Fp32NumbersBesideEveryBoundary) {
  for (const Float8Format format : kFormats)
    for (int code = 0; value_of(code + 1, format) > 0; ++code)
      for (const double place :
           {value_of(code, format), (value_of(code, format) + value_of(code + 1, format)) / 2}) {
        const auto at = static_cast<float>(place);
        for (const float x : {std::nextafter(at, 0.0f), at, std::nextafter(at, kInfinity)})
          for (const float sign : {1.0f, -1.0f})
            ASSERT_EQ(float8_of(sign * x, format), nearest_code(sign * x, format)) << x;
      }
}

TEST(Float8, CodesComeBackAsTheirNumbers) {
  for (const Float8Format format : kFormats) {
    const Tensor codes = at::empty({256}, at::kByte);
    for (int code = 0; code < 256; ++code) codes.data_ptr<std::uint8_t>()[code] = code;
    const Tensor numbers = codes.view(dtype_of(format)).to(kFloat32);
    for (int code = 0; code < 256; ++code) {
      const double wanted = value_of(code, format);
      if (std::isnan(wanted)) continue;
      EXPECT_EQ(numbers.data_ptr<float>()[code], wanted) << code;
      EXPECT_EQ(float8_of(static_cast<float>(wanted), format), code);
    }
  }
}

TEST(Float8, GoldenScales) {
  auto bits = [](float amax, Float8Format format = Float8Format::e4m3) {
    return std::bit_cast<std::uint32_t>(float8_scale(amax, format, Float8Recipe::tensorwise));
  };
  EXPECT_EQ(bits(0), 0x57cbba10u);
  EXPECT_EQ(bits(1e-13f), 0x57cbba10u);
  EXPECT_EQ(bits(1), 0x43e00000u);
  EXPECT_EQ(bits(3), 0x43155555u);
  EXPECT_EQ(from_bits(bits(0.7f)), 640);
  EXPECT_EQ(bits(1e30f), 0x120dfa14u);
  EXPECT_EQ(bits(kInfinity), 0u);
  EXPECT_TRUE(std::isnan(from_bits(bits(kQuietNaN))));
  EXPECT_EQ(from_bits(bits(1, Float8Format::e5m2)), 57344);
  EXPECT_EQ(from_bits(bits(448, Float8Format::e5m2)), 128);
}

TEST(Float8, PowersOfTwo) {
  auto scale = [](float amax) {
    return float8_scale(amax, Float8Format::e4m3, Float8Recipe::rowwise);
  };
  EXPECT_EQ(scale(1), 256);
  EXPECT_EQ(scale(3), 128);
  EXPECT_EQ(scale(0.7f), 512);
  EXPECT_EQ(scale(0), 0x1p48f);
  EXPECT_EQ(scale(kInfinity), 0);
  EXPECT_TRUE(std::isnan(scale(kQuietNaN)));
  // 448 / 1.75 is 256 exactly; the next amax above must not round up to it.
  EXPECT_EQ(scale(1.75f), 256);
  EXPECT_EQ(scale(std::nextafter(1.75f, 2.0f)), 128);
}

const Tensor& golden_matrix() {
  static const Tensor x =
      at::tensor({0.5f, -1.25f, 3.0f, 0.01f, 100.0f, -7.0f, 0.3f, 0.0f}).view({2, 4});
  return x;
}

TEST(Float8, GoldenMatrixTensorwise) {
  const Float8Forms forms =
      quantise(golden_matrix(), Float8Recipe::tensorwise, Float8Role::input, true, true);
  EXPECT_EQ(forms.rows.inverse.item<float>(), 1 / 4.48f);
  EXPECT_EQ(bytes_of(forms.rows.values_RK),
            (std::vector<int>{0x41, 0xcb, 0x55, 0x13, 0x7e, 0xe0, 0x3b, 0x00}));
  EXPECT_EQ(forms.columns.values_RK.sizes(), (std::vector<std::int64_t>{4, 16}));
  std::vector<int> turned(64);
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t c = 0; c < 4; ++c)
      turned[16 * c + r] = bytes_of(forms.rows.values_RK)[4 * r + c];
  EXPECT_EQ(bytes_of(forms.columns.values_RK), turned);
  EXPECT_TRUE(bit_equal(forms.rows.inverse, forms.columns.inverse));
}

TEST(Float8, GoldenMatrixRowwise) {
  const Float8Forms forms =
      quantise(golden_matrix(), Float8Recipe::rowwise, Float8Role::input, true, true);
  EXPECT_TRUE(forms.rows.inverse.equal(at::tensor({1 / 128.0f, 1 / 4.0f})));
  EXPECT_EQ(bytes_of(forms.rows.values_RK),
            (std::vector<int>{0x68, 0xf2, 0x7c, 0x3a, 0x7c, 0xde, 0x3a, 0x00}));
  EXPECT_TRUE(
      forms.columns.inverse.equal(at::tensor({1 / 4.0f, 1 / 64.0f, 1 / 128.0f, 1 / 32768.0f})));
  const auto by_columns = bytes_of(forms.columns.values_RK.narrow(1, 0, 2).contiguous());
  EXPECT_EQ(by_columns, (std::vector<int>{0x40, 0x7c, 0xea, 0xfe, 0x7c, 0x62, 0x7a, 0x00}));
  EXPECT_TRUE(bytes_of(forms.columns.values_RK.narrow(1, 2, 14).contiguous()) ==
              std::vector<int>(4 * 14));
}

TEST(Float8, GradientsOfOutputsHaveTheWiderRangeTensorwise) {
  for (const Float8Role role : {Float8Role::weight, Float8Role::input})
    for (const Float8Recipe recipe : kRecipes)
      EXPECT_EQ(format_of(recipe, role), Float8Format::e4m3);
  EXPECT_EQ(format_of(Float8Recipe::tensorwise, Float8Role::output_grad), Float8Format::e5m2);
  EXPECT_EQ(format_of(Float8Recipe::rowwise, Float8Role::output_grad), Float8Format::e4m3);
}

// A part of a larger matrix takes the bytes that it has in the whole: what sharded runs rely on.
TEST(Float8, AnAmaxFromElsewhereGivesTheBytesOfTheWhole) {
  const Tensor whole = normals("whole", {32, 16}).to(kFloat32);
  const Float8Amax amax = float8_amax(whole, Float8Recipe::tensorwise);
  const Float8Forms all =
      quantise(whole, Float8Recipe::tensorwise, Float8Role::weight, true, false);
  const Float8Forms part = quantise({.x_RC = whole.narrow(0, 3, 7),
                                     .recipe = Float8Recipe::tensorwise,
                                     .role = Float8Role::weight,
                                     .amax = amax,
                                     .rows = true,
                                     .columns = false});
  EXPECT_EQ(bytes_of(part.rows.values_RK),
            bytes_of(all.rows.values_RK.narrow(0, 3, 7).contiguous()));
  EXPECT_FALSE(part.columns.defined());
}

TEST(Float8, ZerosSubnormalsAndEqualNumbers) {
  for (const Float8Recipe recipe : kRecipes) {
    const Float8Forms zeros = quantise(at::zeros({3, 16}), recipe, Float8Role::input, true, true);
    EXPECT_EQ(bytes_of(zeros.rows.values_RK), std::vector<int>(48));
    // fp32's least number is far below what the floor of the amax resolves.
    const Float8Forms tiny = quantise(at::full({3, 16}, std::numeric_limits<float>::denorm_min()),
                                      recipe, Float8Role::input, true, false);
    EXPECT_EQ(bytes_of(tiny.rows.values_RK), std::vector<int>(48));
    const Float8Forms equal =
        quantise(at::full({3, 16}, -3.0f), recipe, Float8Role::input, true, false);
    // 3 * 149.33 is the largest number; 3 * 128 = 1.5 * 2^8.
    const int code = recipe == Float8Recipe::tensorwise ? 0xfe : 0xfc;
    EXPECT_EQ(bytes_of(equal.rows.values_RK), std::vector<int>(48, code));
    const Float8Forms none = quantise(at::empty({0, 16}), recipe, Float8Role::input, true, true);
    EXPECT_EQ(none.columns.values_RK.sizes(), (std::vector<std::int64_t>{16, 0}));
  }
}

struct Operands {
  Tensor x_NI, weight_OI, dy_NO;
};

Operands operands(std::int64_t tokens, DType dtype = kFloat32) {
  return {normals("x", {tokens, 48}).to(dtype), normals("weight", {80, 48}, 0.02).to(dtype),
          normals("dy", {tokens, 80}, 1e-4).to(dtype)};
}

struct Quantised {
  Float8Forms x, weight, dy;
};

Quantised quantised(const Operands& all, Float8Recipe recipe) {
  return {quantise(all.x_NI, recipe, Float8Role::input, true, true),
          quantise(all.weight_OI, recipe, Float8Role::weight, true, true),
          quantise(all.dy_NO, recipe, Float8Role::output_grad, true, true)};
}

Tensor number_of(const Float8Matrix& form) {
  return form.values_RK.to(kFloat64) * form.inverse.to(kFloat64).view({-1, 1});
}

// Each of n additions rounds by up to u of the terms' sizes so far, and each of the two scales
// once; a bf16 result is rounded once more.
void expect_product(const Tensor& got, const Float8Matrix& a, const Float8Matrix& b,
                    const Tensor& before = {}) {
  const Tensor wanted = number_of(a).matmul(number_of(b).t());
  const Tensor sizes = number_of(a).abs().matmul(number_of(b).abs().t());
  const auto terms = static_cast<double>(a.values_RK.size(1));
  double unit = got.scalar_type() == kFloat64 ? 0x1p-53 * (terms + 3) : 0x1p-24 * (terms + 3);
  if (got.scalar_type() == kBFloat16) unit += 0x1p-8;
  Tensor error = got.to(kFloat64) - wanted;
  Tensor bound = sizes * unit;
  if (before.defined()) {
    error = error - before.to(kFloat64);
    bound = bound + (before.to(kFloat64).abs() + sizes) * 0x1p-24;
  }
  EXPECT_TRUE(error.abs().le(bound).all().item<bool>());
}

TEST(Float8, ProductsAreThoseOfTheQuantisedOperands) {
  for (const Float8Recipe recipe : kRecipes)
    for (const std::int64_t tokens : {1, 15, 16, 17, 40})
      for (const DType dtype : {kFloat32, kBFloat16, kFloat64}) {
        const Operands all = operands(tokens, dtype);
        const Quantised q = quantised(all, recipe);
        const Tensor y = at::empty({tokens, 80}, all.x_NI.options()), dx = fresh_like(all.x_NI);
        float8_linear(q.x.rows, q.weight.rows, y);
        expect_product(y, q.x.rows, q.weight.rows);
        float8_linear_backward_input(q.dy.rows, q.weight.columns, dx);
        expect_product(dx, q.dy.rows, q.weight.columns);
        const Tensor before = normals("dweight", {80, 48}, 1e-3).to(kFloat32),
                     after = copied(before);
        float8_linear_backward_weight(q.dy.columns, q.x.columns, after);
        expect_product(after, q.dy.columns, q.x.columns, before);
        float8_linear_backward_weight(q.dy.columns, q.x.columns, after, 0);
        expect_product(after, q.dy.columns, q.x.columns);
      }
}

// The products are near those of the operands before they were quantised: a relative error of up to
// 2^-4 (2^-3 for e5m2) in each factor, to either side.
TEST(Float8, ProductsAreNearTheExactOnes) {
  for (const Float8Recipe recipe : kRecipes) {
    const Operands all = operands(40);
    const Quantised q = quantised(all, recipe);
    auto relative = [](const Tensor& got, const Tensor& want) {
      return (got.to(kFloat64) - want).norm().item<double>() / want.norm().item<double>();
    };
    const Tensor x = all.x_NI.to(kFloat64), w = all.weight_OI.to(kFloat64),
                 dy = all.dy_NO.to(kFloat64);
    const Tensor y = at::empty({40, 80}), dx = at::empty({40, 48}), dw = at::empty({80, 48});
    float8_linear(q.x.rows, q.weight.rows, y);
    float8_linear_backward_input(q.dy.rows, q.weight.columns, dx);
    float8_linear_backward_weight(q.dy.columns, q.x.columns, dw, 0);
    const double narrow = 0x1p-4, wide = recipe == Float8Recipe::tensorwise ? 0x1p-3 : 0x1p-4;
    EXPECT_LT(relative(y, x.matmul(w.t())), narrow + narrow);
    EXPECT_LT(relative(dx, dy.matmul(w)), wide + narrow);
    EXPECT_LT(relative(dw, dy.t().matmul(x)), wide + narrow);
    EXPECT_GT(relative(y, x.matmul(w.t())), 0x1p-9);  // and they are not the exact ones
  }
}

// One bad number must not be hidden by a saturating conversion. Rowwise it spoils what its own row
// or column takes part in, tensorwise all.
TEST(Float8, WhatIsNotFiniteShows) {
  for (const Float8Recipe recipe : kRecipes)
    for (const float bad : {kQuietNaN, kInfinity, -kInfinity}) {
      Operands all = operands(17);
      all.x_NI[5][7].fill_(bad);
      const Quantised q = quantised(all, recipe);
      const Tensor y = at::empty({17, 80}), dw = at::empty({80, 48});
      float8_linear(q.x.rows, q.weight.rows, y);
      float8_linear_backward_weight(q.dy.columns, q.x.columns, dw, 0);
      const bool tensorwise = recipe == Float8Recipe::tensorwise;
      EXPECT_TRUE(y[5].isnan().all().item<bool>());
      EXPECT_EQ(y[4].isnan().any().item<bool>(), tensorwise);
      EXPECT_TRUE(dw.select(1, 7).isnan().all().item<bool>());
      EXPECT_EQ(dw.select(1, 6).isnan().any().item<bool>(), tensorwise);
    }
}

TEST(Float8, FormsAndSizesThatDoNotFitAreRefused) {
  const Quantised q = quantised(operands(17), Float8Recipe::tensorwise);
  const Tensor y = at::empty({17, 80});
  EXPECT_THROW(float8_linear(q.x.rows, {}, y), Error);
  EXPECT_THROW(float8_linear(q.x.rows, q.weight.columns, y), Error);
  const Float8Matrix odd =
      quantise(at::zeros({9, 48}), Float8Recipe::tensorwise, Float8Role::weight, true, false).rows;
  EXPECT_THROW(float8_linear(q.x.rows, odd, at::empty({17, 9})), Error);
  EXPECT_THROW(float8_linear_backward_weight(q.dy.columns, q.x.columns, at::empty({80, 48}), 2),
               Error);
  EXPECT_THROW(float8_amax(y, Float8Recipe::off), Error);
}

}  // namespace
}  // namespace wmtp::kernels::testing
