// A weight in float8 whose parts are kept apart: amax, bytes and scales are those of the whole, and
// the turned order has the bytes that quantising it gives.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/kernels/op_matrix.h"
#include "wmtp/core/error.h"
#include "wmtp/kernels/float8.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kQuietNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<c10::Device> devices() {
  std::vector<c10::Device> all{c10::Device(c10::kCPU)};
  if (cuda_loaded()) all.emplace_back(c10::kCUDA, 0);
  return all;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.cpu().view(at::kByte).equal(b.cpu().view(at::kByte));
}

std::uint32_t fp32_bits(const Tensor& one) {
  return std::bit_cast<std::uint32_t>(one.item<float>());
}

// Cut at odd places, in parts longer and shorter than a row of the kernels' own.
void expect_parts_of(const Tensor& whole_OI) {
  const Tensor flat = whole_OI.view({-1});
  const Float8Amax wanted = float8_amax(whole_OI, Float8Recipe::tensorwise);
  const Float8Forms forms =
      quantise(whole_OI, Float8Recipe::tensorwise, Float8Role::weight, true, true);
  for (const std::int64_t part : {std::int64_t{1000}, std::int64_t{4096}, flat.numel()}) {
    SCOPED_TRACE(part);
    const Tensor amax = at::zeros({1}, flat.options().dtype(kFloat32));
    const Tensor values = at::zeros({flat.numel()}, forms.rows.values_RK.options());
    const auto each = [&](const auto& visit) {
      for (std::int64_t at = 0; at < flat.numel(); at += part)
        visit(at, std::min(part, flat.numel() - at));
    };
    each([&](std::int64_t at, std::int64_t size) {
      raise_float8_amax(flat.narrow(0, at, size), amax);
    });
    EXPECT_EQ(fp32_bits(amax), fp32_bits(wanted.of_rows));
    each([&](std::int64_t at, std::int64_t size) {
      quantise_part(flat.narrow(0, at, size), amax, values.narrow(0, at, size));
    });
    EXPECT_TRUE(same_bytes(values.view(whole_OI.sizes()), forms.rows.values_RK));
    const Tensor inverse = float8_inverse(amax);
    EXPECT_EQ(fp32_bits(inverse), fp32_bits(forms.rows.inverse));
    const Float8Matrix turned = columns_of({values.view(whole_OI.sizes()), inverse});
    EXPECT_EQ(turned.values_RK.sizes(), forms.columns.values_RK.sizes());
    EXPECT_TRUE(same_bytes(turned.values_RK, forms.columns.values_RK));
  }
}

TEST(Float8Weight, PartsHaveTheBytesOfTheWhole) {
  for (const c10::Device device : devices())
    for (const DType dtype : {kFloat32, kBFloat16})
      for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{
               {16, 16}, {48, 80}, {64, 64}, {80, 144}, {144, 48}, {256, 16}}) {
        SCOPED_TRACE(::testing::Message() << device << " " << rows << " x " << columns);
        expect_parts_of(normals("weight", {rows, columns}).to(device, dtype));
      }
}

TEST(Float8Weight, ScalesAtTheEnds) {
  for (const c10::Device device : devices())
    for (const float odd : {0.0f, 1e-13f, 1e30f, kInfinity}) {
      SCOPED_TRACE(::testing::Message() << device << " " << odd);
      Tensor weight = at::zeros({16, 32}, at::TensorOptions(device).dtype(kFloat32));
      weight[7][9].fill_(odd);
      expect_parts_of(weight);
    }
}

// It stands above all, whatever was found before and comes after.
TEST(Float8Weight, ANanStays) {
  for (const c10::Device device : devices()) {
    const Tensor x = at::full({10}, 3.0f, at::TensorOptions(device).dtype(kFloat32));
    const Tensor amax = at::zeros({1}, x.options());
    raise_float8_amax(x, amax);
    EXPECT_EQ(amax.item<float>(), 3.0f);
    x[4].fill_(kQuietNaN);
    raise_float8_amax(x, amax);
    x.fill_(kInfinity);
    raise_float8_amax(x, amax);
    EXPECT_TRUE(std::isnan(amax.item<float>()));
    EXPECT_TRUE(std::isnan(float8_inverse(amax).item<float>()));
    raise_float8_amax(x.narrow(0, 0, 0), amax);  // of nothing
  }
}

TEST(Float8Weight, WhatCannotBeTurnedIsRefused) {
  const auto form = [](std::int64_t rows, std::int64_t columns, Float8Recipe recipe) {
    return quantise(normals("weight", {rows, columns}).to(kFloat32), recipe, Float8Role::weight,
                    true, false)
        .rows;
  };
  EXPECT_THROW(columns_of(form(24, 16, Float8Recipe::tensorwise)), Error);
  EXPECT_THROW(columns_of(form(16, 16, Float8Recipe::rowwise)), Error);
}

}  // namespace
}  // namespace wmtp::kernels::testing
