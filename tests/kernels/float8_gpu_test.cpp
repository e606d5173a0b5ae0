// Float8 on a GPU: amax, scales, bytes and inverses have the CPU's bits, and products are those of
// the quantised operands within what the multiplying units leave of a sum.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "tests/kernels/op_matrix.h"
#include "wmtp/core/error.h"
#include "wmtp/kernels/float8.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {
namespace {

constexpr Float8Recipe kBothRecipes[] = {Float8Recipe::tensorwise, Float8Recipe::rowwise};
constexpr DType kCompute[] = {kFloat32, kBFloat16, kFloat16};
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const c10::Device kGpu(c10::kCUDA, 0);

Tensor on_gpu(const Tensor& tensor) {
  return tensor.to(kGpu);
}

std::vector<int> codes_of(const Tensor& values) {
  const Tensor host = values.cpu().contiguous();
  const auto* const bytes = static_cast<const std::uint8_t*>(host.const_data_ptr());
  return {bytes, bytes + host.numel()};
}

// The same bits; one NaN is as good as another, as processors make different ones.
bool same_numbers(const Tensor& gpu, const Tensor& cpu) {
  const Tensor host = gpu.cpu();
  if (host.sizes() != cpu.sizes() || host.scalar_type() != kFloat32) return false;
  return host.view(kInt32)
      .eq(cpu.view(kInt32))
      .logical_or(host.isnan().logical_and(cpu.isnan()))
      .all()
      .item<bool>();
}

void expect_same(const Float8Matrix& gpu, const Float8Matrix& cpu) {
  ASSERT_EQ(gpu.defined(), cpu.defined());
  if (!cpu.defined()) return;
  ASSERT_EQ(gpu.values_RK.sizes(), cpu.values_RK.sizes());
  ASSERT_EQ(gpu.values_RK.scalar_type(), cpu.values_RK.scalar_type());
  EXPECT_TRUE(codes_of(gpu.values_RK) == codes_of(cpu.values_RK));
  EXPECT_TRUE(same_numbers(gpu.inverse, cpu.inverse));
}

void expect_same(const Float8Amax& gpu, const Float8Amax& cpu) {
  EXPECT_TRUE(same_numbers(gpu.of_rows, cpu.of_rows));
  EXPECT_TRUE(same_numbers(gpu.of_columns, cpu.of_columns));
}

// With an amax of the largest number the scale is 1.
Float8Forms quantised_by(const Tensor& x_RC, Float8Role role, Float8Recipe recipe, float amax) {
  const bool rowwise = recipe == Float8Recipe::rowwise;
  const auto fp32 = x_RC.options().dtype(kFloat32);
  return quantise({.x_RC = x_RC,
                   .recipe = recipe,
                   .role = role,
                   .amax = {at::full({rowwise ? x_RC.size(0) : 1}, amax, fp32),
                            at::full({rowwise ? x_RC.size(1) : 1}, amax, fp32)}});
}

TEST(Float8OnGpu, GoldenConversions) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  const Tensor x =
      at::tensor({1.0,    1.0625,       1.1875,        -3.3,         17.0,         18.0,
                  19.0,   240.0,        464.0,         465.0,        500.0,        0x1p-6,
                  0x1p-9, 0x1p-10,      1.5 * 0x1p-10, 3 * 0x1p-10,  1e-4,         61440.0,
                  -0.0,   double{kNaN}, double{-kNaN}, double{kInf}, double{-kInf}})
          .to(kFloat32)
          .view({1, -1});
  const auto bytes = [&](Float8Role role, float largest) {
    const Float8Forms forms = quantised_by(on_gpu(x), role, Float8Recipe::tensorwise, largest);
    const Tensor turned = forms.columns.values_RK.narrow(1, 0, 1);
    EXPECT_EQ(codes_of(turned), codes_of(forms.rows.values_RK));
    return codes_of(forms.rows.values_RK);
  };
  EXPECT_EQ(
      bytes(Float8Role::input, 448),
      (std::vector<int>{0x38, 0x38, 0x3a, 0xc5, 0x58, 0x59, 0x5a, 0x77, 0x7e, 0x7e, 0x7e, 0x08,
                        0x01, 0x00, 0x01, 0x02, 0x00, 0x7e, 0x80, 0x7f, 0x7f, 0x7e, 0xfe}));
  EXPECT_EQ(
      bytes(Float8Role::output_grad, 57344),
      (std::vector<int>{0x3c, 0x3c, 0x3d, 0xc3, 0x4c, 0x4c, 0x4d, 0x5c, 0x5f, 0x5f, 0x60, 0x24,
                        0x18, 0x14, 0x16, 0x1a, 0x07, 0x7b, 0x80, 0x7f, 0x7f, 0x7b, 0xfb}));
}

// By the inverses, which are 1 / s rounded once.
TEST(Float8OnGpu, GoldenScales) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  const auto inverse = [](float amax, Float8Role role, Float8Recipe recipe) {
    const Tensor x = at::zeros({1, 16}, at::TensorOptions(kGpu).dtype(kFloat32));
    return quantised_by(x, role, recipe, amax).rows.inverse.item<float>();
  };
  const std::pair<float, std::uint32_t> tensorwise[] = {{0.0f, 0x57cbba10u}, {1e-13f, 0x57cbba10u},
                                                        {1.0f, 0x43e00000u}, {3.0f, 0x43155555u},
                                                        {0.7f, 0x44200000u}, {1e30f, 0x120dfa14u}};
  for (const auto& [amax, bits] : tensorwise)
    EXPECT_EQ(inverse(amax, Float8Role::input, Float8Recipe::tensorwise),
              1 / std::bit_cast<float>(bits))
        << amax;
  const std::pair<float, float> powers[] = {{1.0f, 256.0f},  {3.0f, 128.0f},  {0.7f, 512.0f},
                                            {0.0f, 0x1p48f}, {1.75f, 256.0f}, {1.7500001f, 128.0f}};
  for (const auto& [amax, scale] : powers)
    EXPECT_EQ(inverse(amax, Float8Role::input, Float8Recipe::rowwise), 1 / scale) << amax;
  EXPECT_EQ(inverse(1, Float8Role::output_grad, Float8Recipe::tensorwise), 1 / 57344.0f);
  EXPECT_EQ(inverse(448, Float8Role::output_grad, Float8Recipe::tensorwise), 1 / 128.0f);
  for (const Float8Recipe recipe : kBothRecipes) {
    EXPECT_EQ(inverse(kInf, Float8Role::input, recipe), kInf);
    EXPECT_TRUE(std::isnan(inverse(kNaN, Float8Role::input, recipe)));
  }
}

TEST(Float8OnGpu, GoldenMatrix) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  const Tensor x =
      on_gpu(at::tensor({0.5f, -1.25f, 3.0f, 0.01f, 100.0f, -7.0f, 0.3f, 0.0f}).view({2, 4}));
  const Float8Forms one = quantise(x, Float8Recipe::tensorwise, Float8Role::input, true, true);
  EXPECT_EQ(one.rows.inverse.item<float>(), 1 / 4.48f);
  EXPECT_EQ(codes_of(one.rows.values_RK),
            (std::vector<int>{0x41, 0xcb, 0x55, 0x13, 0x7e, 0xe0, 0x3b, 0x00}));
  EXPECT_EQ(codes_of(one.columns.values_RK.narrow(1, 0, 2)),
            (std::vector<int>{0x41, 0x7e, 0xcb, 0xe0, 0x55, 0x3b, 0x13, 0x00}));
  const Float8Forms each = quantise(x, Float8Recipe::rowwise, Float8Role::input, true, true);
  EXPECT_TRUE(each.rows.inverse.cpu().equal(at::tensor({1 / 128.0f, 1 / 4.0f})));
  EXPECT_EQ(codes_of(each.rows.values_RK),
            (std::vector<int>{0x68, 0xf2, 0x7c, 0x3a, 0x7c, 0xde, 0x3a, 0x00}));
  EXPECT_TRUE(each.columns.inverse.cpu().equal(
      at::tensor({1 / 4.0f, 1 / 64.0f, 1 / 128.0f, 1 / 32768.0f})));
  EXPECT_EQ(codes_of(each.columns.values_RK.narrow(1, 0, 2)),
            (std::vector<int>{0x40, 0x7c, 0xea, 0xfe, 0x7c, 0x62, 0x7a, 0x00}));
  for (const Float8Forms& forms : {one, each})
    EXPECT_EQ(codes_of(forms.columns.values_RK.narrow(1, 2, 14)), std::vector<int>(4 * 14));
}

TEST(Float8OnGpu, EveryBf16NumberUnderManyScales) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  const Tensor x = at::arange(0x10000, kInt32).to(at::kShort).view(kBFloat16).view({256, 256});
  const Tensor there = on_gpu(x);
  const std::pair<Float8Recipe, Float8Role> kinds[] = {
      {Float8Recipe::tensorwise, Float8Role::input},
      {Float8Recipe::tensorwise, Float8Role::output_grad},
      {Float8Recipe::rowwise, Float8Role::input}};
  for (const auto& [recipe, role] : kinds)
    for (const float amax : {0.0f, 1e-30f, 0.7f, 3.0f, 448.0f, 57344.0f, 1e30f, kInf, kNaN}) {
      const Float8Forms cpu = quantised_by(x, role, recipe, amax);
      const Float8Forms gpu = quantised_by(there, role, recipe, amax);
      SCOPED_TRACE(amax);
      expect_same(gpu.rows, cpu.rows);
      expect_same(gpu.columns, cpu.columns);
    }
}

void expect_same_forms(const Tensor& cpu, const Tensor& gpu) {
  for (const Float8Recipe recipe : kBothRecipes) {
    expect_same(float8_amax(gpu, recipe), float8_amax(cpu, recipe));
    for (const Float8Role role : {Float8Role::input, Float8Role::output_grad}) {
      const Float8Forms wanted = quantise(cpu, recipe, role, true, true);
      const Float8Forms both = quantise(gpu, recipe, role, true, true);
      expect_same(both.rows, wanted.rows);
      expect_same(both.columns, wanted.columns);
      const Float8Forms rows = quantise(gpu, recipe, role, true, false);
      expect_same(rows.rows, wanted.rows);
      EXPECT_FALSE(rows.columns.defined());
      const Float8Forms columns = quantise(gpu, recipe, role, false, true);
      expect_same(columns.columns, wanted.columns);
      EXPECT_FALSE(columns.rows.defined());
    }
  }
}

// Numbers over fp16's range and beyond fp8's, so that each row and column has an amax of its own.
Tensor spread(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const Tensor powers = at::pow(2.0, at::arange(rows, kFloat64).remainder(7) * 2 - 6);
  return normals(name, {rows, columns}) * powers.view({-1, 1});
}

TEST(Float8OnGpu, TheBitsOfTheCpuAtEverySize) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  std::int64_t turn = 0;
  for (const std::int64_t rows : {0, 1, 15, 16, 17, 32, 48, 63, 64, 65, 80, 128, 129, 144})
    for (const std::int64_t columns : {1, 16, 32, 48, 64, 80, 128, 144}) {
      const Tensor x = spread("x", rows, columns).to(kCompute[turn++ % 3]);
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns);
      expect_same_forms(x, on_gpu(x));
    }
}

// Rows apart by packs of 16 bytes, by odd distances, and beginning off the boundary.
TEST(Float8OnGpu, TheBitsOfTheCpuInViews) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const DType dtype : kCompute)
    for (const std::int64_t width : {160, 163})
      for (const std::int64_t first : {0, 1, 8}) {
        const Tensor x = spread("x", 67, width).to(dtype);
        SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << width << " " << first);
        for (const std::int64_t columns : {144, 150})
          expect_same_forms(x.narrow(1, first, columns), on_gpu(x).narrow(1, first, columns));
      }
}

TEST(Float8OnGpu, NumbersAtTheEnds) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  for (const float odd : {0.0f, -0.0f, kLeast, -0x1p-130f, 3e38f, kInf, -kInf, kNaN, -kNaN})
    for (const DType dtype : kCompute) {
      SCOPED_TRACE(odd);
      const Tensor whole = at::full({17, 48}, odd, at::TensorOptions(kFloat32)).to(dtype);
      expect_same_forms(whole, on_gpu(whole));
      Tensor one = spread("x", 65, 48).to(kFloat32);
      one[64][47].fill_(odd);
      one = one.to(dtype);
      expect_same_forms(one, on_gpu(one));
    }
}

struct GpuOperands {
  Float8Forms x, weight, dy;
};

GpuOperands gpu_operands(std::int64_t tokens, Float8Recipe recipe, std::int64_t inputs = 48,
                         std::int64_t outputs = 80) {
  const auto form = [&](const Tensor& x, Float8Role role) {
    return quantise(on_gpu(x.to(kBFloat16)), recipe, role, true, true);
  };
  return {form(spread("x", tokens, inputs), Float8Role::input),
          form(spread("weight", outputs, inputs) * 0.02, Float8Role::weight),
          form(spread("dy", tokens, outputs) * 1e-2, Float8Role::output_grad)};
}

Tensor numbers_of(const Float8Matrix& form) {
  return form.values_RK.cpu().to(kFloat64) * form.inverse.cpu().to(kFloat64).view({-1, 1});
}

// Hopper's units add up with about 14 bits, fewer where they are fast; the result is rounded to
// `out` together with what was there before.
constexpr double kFast = 0x1p-9, kSlow = 0x1p-11;

double rounding_of(DType dtype) {
  return dtype == kBFloat16 ? 0x1p-8 : dtype == kFloat16 ? 0x1p-11 : 0x1p-24;
}

void expect_product(const Tensor& out, const Float8Matrix& a, const Float8Matrix& b, double units,
                    const Tensor& before = {}) {
  const Tensor sizes = numbers_of(a).abs().matmul(numbers_of(b).abs().t());
  const double last = rounding_of(out.scalar_type());
  Tensor error = out.cpu().to(kFloat64) - numbers_of(a).matmul(numbers_of(b).t());
  // fp16 has no numbers between multiples of 2^-24.
  Tensor bound = sizes * (units + last) + (out.scalar_type() == kFloat16 ? 0x1p-25 : 0.0);
  if (before.defined()) {
    error = error - before.cpu().to(kFloat64);
    bound = bound + before.cpu().to(kFloat64).abs() * last;
  }
  EXPECT_TRUE(error.abs().le(bound).all().item<bool>())
      << out.sizes() << name_of(out.scalar_type());
  EXPECT_GT(out.abs().max().item<double>(), 0);
}

// A place for [rows, columns] in a larger buffer.
Tensor place(std::int64_t rows, std::int64_t columns, DType dtype, std::int64_t stride,
             std::int64_t first) {
  const auto options = at::TensorOptions(kGpu).dtype(dtype);
  return at::full({first + rows * stride}, 7, options)
      .narrow(0, first, rows * stride)
      .view({rows, stride})
      .narrow(1, 0, columns);
}

// How an output lies: elements between its rows, elements before its first.
using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;
const Places kPlaces{{0, 0}, {16, 8}, {3, 1}};

void expect_forward_and_input_products(const GpuOperands& q, DType dtype,
                                       const Places& places = kPlaces) {
  const std::int64_t tokens = q.x.rows.values_RK.size(0);
  const std::int64_t outputs = q.weight.rows.values_RK.size(0);
  const std::int64_t inputs = q.weight.columns.values_RK.size(0);
  for (const auto& [gap, first] : places) {
    const Tensor y = place(tokens, outputs, dtype, outputs + gap, first);
    const Tensor dx = place(tokens, inputs, dtype, inputs + gap, first);
    float8_linear(q.x.rows, q.weight.rows, y);
    expect_product(y, q.x.rows, q.weight.rows, kFast);
    float8_linear_backward_input(q.dy.rows, q.weight.columns, dx);
    expect_product(dx, q.dy.rows, q.weight.columns, kSlow);
  }
}

void expect_weight_products(const GpuOperands& q, DType dtype, const Places& places = kPlaces) {
  const std::int64_t outputs = q.dy.columns.values_RK.size(0);
  const std::int64_t inputs = q.x.columns.values_RK.size(0);
  for (const auto& [gap, first] : places) {
    const Tensor dweight = place(outputs, inputs, dtype, inputs + gap, first);
    float8_linear_backward_weight(q.dy.columns, q.x.columns, dweight, 0);
    expect_product(dweight, q.dy.columns, q.x.columns, kSlow);
    const Tensor before = on_gpu(normals("dweight", {outputs, inputs}).to(dtype));
    dweight.copy_(before);
    float8_linear_backward_weight(q.dy.columns, q.x.columns, dweight);
    expect_product(dweight, q.dy.columns, q.x.columns, kSlow, before);
  }
}

TEST(Float8OnGpu, ForwardAndInputProducts) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const Float8Recipe recipe : kBothRecipes)
    for (const std::int64_t tokens : {1, 15, 16, 17, 65})
      for (const DType dtype : kCompute)
        expect_forward_and_input_products(gpu_operands(tokens, recipe), dtype);
}

TEST(Float8OnGpu, WeightProductsOverwriteOrAdd) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const Float8Recipe recipe : kBothRecipes)
    for (const std::int64_t tokens : {1, 15, 16, 17, 65})
      for (const DType dtype : {kFloat32, kBFloat16})
        expect_weight_products(gpu_operands(tokens, recipe), dtype);
}

struct LayerSize {
  std::int64_t tokens, inputs, outputs;
};

// Few rows and a long sum, in each of the three products: the emulated cublasLt has none of these
// with scales of rows (emulated_gpu/kernels/float8_product.cpp).
constexpr LayerSize kDeclined[] = {{16, 512, 48}, {1, 48, 512}, {512, 48, 16}};

TEST(Float8OnGpu, ScalesOfRowsThatTheLibraryDeclines) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const Float8Recipe recipe : kBothRecipes)
    for (const auto& [tokens, inputs, outputs] : kDeclined)
      for (const DType dtype : kCompute) {
        SCOPED_TRACE(::testing::Message() << tokens << " " << inputs << " " << outputs);
        const GpuOperands q = gpu_operands(tokens, recipe, inputs, outputs);
        expect_forward_and_input_products(q, dtype);
        if (dtype != kFloat16) expect_weight_products(q, dtype);
      }
}

// Few rows and a long sum as an H100 was seen to decline them, and the longest sum of a small
// matrix. Too long for the emulated GPU, whose test takes the suites *OnGpu only.
TEST(Float8OnRealGpu, ScalesOfRowsThatTheLibraryMayDecline) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  if (cuda_tables().services.device_info(0).name == "emulated GPU") GTEST_SKIP() << "too slow";
  constexpr LayerSize kSizes[] = {
      {127, 9216, 3072}, {127, 3072, 9216}, {9216, 3072, 128}, {32768, 1024, 1024}};
  for (const Float8Recipe recipe : kBothRecipes)
    for (const auto& [tokens, inputs, outputs] : kSizes) {
      SCOPED_TRACE(::testing::Message() << tokens << " " << inputs << " " << outputs);
      const GpuOperands q = gpu_operands(tokens, recipe, inputs, outputs);
      expect_forward_and_input_products(q, kBFloat16, {{0, 0}});
      expect_weight_products(q, kFloat32, {{0, 0}});
    }
}

TEST(Float8OnGpu, NoTokensAddNothing) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const Float8Recipe recipe : kBothRecipes) {
    const GpuOperands q = gpu_operands(0, recipe);
    float8_linear(q.x.rows, q.weight.rows, place(0, 80, kBFloat16, 80, 0));
    const Tensor dweight = place(80, 48, kFloat32, 48, 0);
    float8_linear_backward_weight(q.dy.columns, q.x.columns, dweight);
    EXPECT_TRUE(dweight.eq(7).all().item<bool>());
    float8_linear_backward_weight(q.dy.columns, q.x.columns, dweight, 0);
    EXPECT_TRUE(dweight.eq(0).all().item<bool>());
  }
}

TEST(Float8OnGpu, WhatIsNotFiniteShows) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const Float8Recipe recipe : kBothRecipes)
    for (const float bad : {kNaN, kInf, -kInf}) {
      const Tensor x = spread("x", 17, 48).to(kBFloat16);
      x[5][7].fill_(bad);
      const Float8Forms spoiled = quantise(on_gpu(x), recipe, Float8Role::input, true, true);
      const GpuOperands q = gpu_operands(17, recipe);
      const Tensor y = place(17, 80, kBFloat16, 80, 0), dw = place(80, 48, kFloat32, 48, 0);
      float8_linear(spoiled.rows, q.weight.rows, y);
      float8_linear_backward_weight(q.dy.columns, spoiled.columns, dw, 0);
      const bool all = recipe == Float8Recipe::tensorwise;
      EXPECT_TRUE(y[5].isnan().all().item<bool>());
      EXPECT_EQ(y[4].isnan().any().item<bool>(), all);
      EXPECT_TRUE(dw.select(1, 7).isnan().all().item<bool>());
      EXPECT_EQ(dw.select(1, 6).isnan().any().item<bool>(), all);
    }
}

TEST(Float8OnGpu, WhatIsNotFiniteShowsWhereTheLibraryDeclines) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const float bad : {kNaN, kInf, -kInf}) {
    const Tensor x = spread("x", 16, 512).to(kBFloat16);
    x[5][7].fill_(bad);
    const Float8Forms spoiled =
        quantise(on_gpu(x), Float8Recipe::rowwise, Float8Role::input, true, false);
    const Float8Matrix weight = gpu_operands(16, Float8Recipe::rowwise, 512, 48).weight.rows;
    const Tensor y = place(16, 48, kBFloat16, 48, 0);
    float8_linear(spoiled.rows, weight, y);
    EXPECT_TRUE(y[5].isnan().all().item<bool>());
    EXPECT_FALSE(y[4].isnan().any().item<bool>());
  }
}

TEST(Float8OnGpu, WhatHasNoBodyIsRefused) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  const GpuOperands one = gpu_operands(17, Float8Recipe::tensorwise);
  const GpuOperands each = gpu_operands(17, Float8Recipe::rowwise);
  const Tensor y = place(17, 80, kBFloat16, 80, 0);
  EXPECT_THROW(float8_linear(one.x.rows, one.weight.rows, place(17, 80, kFloat64, 80, 0)), Error);
  EXPECT_THROW(float8_linear(one.x.rows, one.weight.rows, place(16, 80, kBFloat16, 80, 0)), Error);
  EXPECT_THROW(float8_linear(one.x.rows, one.weight.rows, y.cpu()), Error);
  EXPECT_THROW(float8_linear(one.x.rows, each.weight.rows, y), Error);
  EXPECT_THROW(float8_linear(each.x.rows, one.weight.rows, y), Error);
  EXPECT_THROW(float8_amax(y.to(kFloat64), Float8Recipe::tensorwise), Error);
  // cublasLt has no product of two e5m2 operands.
  EXPECT_WMTP_ERROR(float8_linear_backward_weight(one.dy.columns, one.dy.columns,
                                                  place(80, 80, kFloat32, 80, 0), 0),
                    ErrorKind::config,
                    "CUBLAS_STATUS_NOT_SUPPORTED for e5m2 [80, 32] by e5m2 [80, 32], tensorwise");
}

}  // namespace
}  // namespace wmtp::kernels::testing
