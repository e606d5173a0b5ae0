#include "wmtp/kernels/float8.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/gpu/float8.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

std::int64_t padded(std::int64_t count) {
  return (count + kFloat8Multiple - 1) / kFloat8Multiple * kFloat8Multiple;
}

void check_amax(const ArgChecks& demands, const Float8Quantise& args) {
  const bool rowwise = args.recipe == Float8Recipe::rowwise;
  demands.vector("amax of rows", args.amax.of_rows, rowwise ? args.x_RC.size(0) : 1, kFloat32)
      .vector("amax of columns", args.amax.of_columns, rowwise ? args.x_RC.size(1) : 1, kFloat32);
}

void check_operand(std::string_view name, const Float8Matrix& operand) {
  WMTP_CHECK(operand.defined() && operand.values_RK.dim() == 2 &&
                 operand.values_RK.is_contiguous() &&
                 c10::isFloat8Type(operand.values_RK.scalar_type()),
             fmt::format("float8: {} was not quantised in this form", name));
  const std::int64_t scales = operand.inverse.numel();
  WMTP_CHECK(
      scales == 1 || scales == operand.values_RK.size(0),
      fmt::format("float8: {} has {} scales for {} rows", name, scales, operand.values_RK.size(0)));
}

void check_product(const Float8Matrix& a, const Float8Matrix& b, const Tensor& out) {
  check_operand("left operand", a);
  check_operand("right operand", b);
  const std::int64_t contracted = a.values_RK.size(1);
  WMTP_CHECK(
      contracted == b.values_RK.size(1) && contracted % kFloat8Multiple == 0 &&
          b.values_RK.size(0) % kFloat8Multiple == 0,
      fmt::format("float8: a product of [{}, {}] and [{}, {}], but both contract the same, "
                  "a multiple of 16, and so is the right one's number of rows",
                  a.values_RK.size(0), contracted, b.values_RK.size(0), b.values_RK.size(1)));
  ArgChecks("float8 product", out)
      .matrix("out", out, a.values_RK.size(0), b.values_RK.size(0), out.scalar_type())
      .matrix("left operand", a.values_RK, a.values_RK.size(0), contracted,
              a.values_RK.scalar_type())
      .matrix("right operand", b.values_RK, b.values_RK.size(0), contracted,
              b.values_RK.scalar_type())
      .vector("left scales", a.inverse, a.inverse.numel(), kFloat32)
      .vector("right scales", b.inverse, b.inverse.numel(), kFloat32);
}

// A flat stretch as one matrix of long rows and one row of what is left: kernels go by rows.
constexpr std::int64_t kStretchColumns = 4096;

template <class Visit>
void for_each_rectangle(std::int64_t size, Visit visit) {
  const std::int64_t rows = size / kStretchColumns, rest = size % kStretchColumns;
  if (rows > 0) visit(std::int64_t{0}, rows, kStretchColumns);
  if (rest > 0) visit(size - rest, std::int64_t{1}, rest);
}

Tensor rectangle(const Tensor& flat, std::int64_t begin, std::int64_t rows, std::int64_t columns) {
  return flat.narrow(0, begin, rows * columns).view({rows, columns});
}

void quantise_into(const Float8Quantise& args, Float8Forms& forms) {
  args.x_RC.is_cuda() ? gpu::quantise(args, forms) : cpu::quantise(args, forms);
}

// A B^T in the dtype asked for. The numbers of 8 bits and their products are exact in fp32, so that
// sums and the two scales alone round.
Tensor product(const Float8Matrix& a, const Float8Matrix& b, DType dtype) {
  const DType sums = statistics_dtype(dtype);
  Tensor out = at::mm(a.values_RK.to(sums), b.values_RK.to(sums).t());
  return out.mul_(a.inverse.to(sums).view({-1, 1})).mul_(b.inverse.to(sums).view({1, -1}));
}

}  // namespace

DType dtype_of(Float8Format format) {
  return format == Float8Format::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
}

double largest_of(Float8Format format) {
  return (format == Float8Format::e4m3 ? kE4m3Shape : kE5m2Shape).largest;
}

Float8Format format_of(Float8Recipe recipe, Float8Role role) {
  return recipe == Float8Recipe::tensorwise && role == Float8Role::output_grad ? Float8Format::e5m2
                                                                               : Float8Format::e4m3;
}

Float8Amax float8_amax(const Tensor& x_RC, Float8Recipe recipe) {
  WMTP_CHECK(recipe != Float8Recipe::off, "float8: an amax without a recipe");
  ArgChecks("float8_amax", x_RC).matrix("x", x_RC, x_RC.size(0), x_RC.size(1), x_RC.scalar_type());
  if (x_RC.is_cuda()) return gpu::float8_amax(x_RC, recipe);
  const auto fp32 = x_RC.options().dtype(kFloat32);
  const bool rowwise = recipe == Float8Recipe::rowwise;
  if (x_RC.numel() == 0)
    return {at::zeros({rowwise ? x_RC.size(0) : 1}, fp32),
            at::zeros({rowwise ? x_RC.size(1) : 1}, fp32)};
  const Tensor size_RC = x_RC.to(kFloat32).abs();
  if (rowwise) return {at::amax(size_RC, 1), at::amax(size_RC, 0)};
  const Tensor one = at::amax(size_RC).view({1});
  return {one, one};
}

Float8Forms quantise(const Float8Quantise& args) {
  const ProfiledOperator operation("wmtp::quantise");
  WMTP_CHECK(args.recipe != Float8Recipe::off, "float8: quantised without a recipe");
  const ArgChecks demands("quantise", args.x_RC);
  const std::int64_t rows = args.x_RC.size(0), columns = args.x_RC.size(1);
  demands.matrix("x", args.x_RC, rows, columns, args.x_RC.scalar_type());
  check_amax(demands, args);
  const auto bytes = args.x_RC.options().dtype(dtype_of(format_of(args.recipe, args.role)));
  auto room = [&](std::int64_t lines, std::int64_t contracted) {
    const bool on_gpu = args.x_RC.is_cuda();  // whose body writes the padding, too
    return on_gpu ? at::empty({lines, contracted}, bytes) : at::zeros({lines, contracted}, bytes);
  };
  Float8Forms forms;
  if (args.rows) forms.rows.values_RK = room(rows, columns);
  if (args.columns) forms.columns.values_RK = room(columns, padded(rows));
  quantise_into(args, forms);
  return forms;
}

Float8Forms quantise(const Tensor& x_RC, Float8Recipe recipe, Float8Role role, bool rows,
                     bool columns) {
  return quantise({.x_RC = x_RC,
                   .recipe = recipe,
                   .role = role,
                   .amax = float8_amax(x_RC, recipe),
                   .rows = rows,
                   .columns = columns});
}

void raise_float8_amax(const Tensor& x, const Tensor& amax) {
  ArgChecks("raise_float8_amax", x)
      .vector("x", x, x.numel(), x.scalar_type())
      .vector("amax", amax, 1, kFloat32);
  for_each_rectangle(x.numel(), [&](std::int64_t begin, std::int64_t rows, std::int64_t columns) {
    const Tensor part_RC = rectangle(x, begin, rows, columns);
    if (x.is_cuda())
      gpu::raise_float8_amax(part_RC, amax);
    else
      amax.copy_(at::maximum(amax, float8_amax(part_RC, Float8Recipe::tensorwise).of_rows));
  });
}

void quantise_part(const Tensor& x, const Tensor& amax, const Tensor& values) {
  const ProfiledOperator operation("wmtp::quantise");
  const DType bytes = dtype_of(format_of(Float8Recipe::tensorwise, Float8Role::weight));
  ArgChecks("quantise_part", x)
      .vector("x", x, x.numel(), x.scalar_type())
      .vector("amax", amax, 1, kFloat32)
      .vector("values", values, x.numel(), bytes);
  for_each_rectangle(x.numel(), [&](std::int64_t begin, std::int64_t rows, std::int64_t columns) {
    Float8Forms forms;
    forms.rows.values_RK = rectangle(values, begin, rows, columns);
    quantise_into({.x_RC = rectangle(x, begin, rows, columns),
                   .recipe = Float8Recipe::tensorwise,
                   .role = Float8Role::weight,
                   .amax = {amax, amax},
                   .columns = false},
                  forms);
  });
}

// The scale as float8_scale has it, which keeps a NaN: so does clamp_min.
Tensor float8_inverse(const Tensor& amax_A) {
  const Tensor size_A = amax_A.to(kFloat64).clamp_min(kLeastFloat8Amax);
  const Tensor scale_A =
      at::full_like(size_A, largest_of(Float8Format::e4m3)).div_(size_A).to(kFloat32);
  return at::ones_like(scale_A).div_(scale_A);
}

Float8Matrix columns_of(const Float8Matrix& rows) {
  const ProfiledOperator operation("wmtp::float8_turn");
  check_operand("a matrix to be turned", rows);
  const std::int64_t lines = rows.values_RK.size(0), width = rows.values_RK.size(1);
  WMTP_CHECK(
      rows.inverse.numel() == 1 && lines % kFloat8Multiple == 0 && width % kFloat8Multiple == 0,
      fmt::format("float8: [{}, {}] with {} scales cannot be turned", lines, width,
                  rows.inverse.numel()));
  const Tensor turned = at::empty({width, lines}, rows.values_RK.options());
  if (turned.is_cuda())
    gpu::float8_turn(rows.values_RK, turned);
  else
    turned.view(at::kByte).copy_(rows.values_RK.view(at::kByte).t());
  return {turned, rows.inverse};
}

void float8_linear(const Float8Matrix& x, const Float8Matrix& weight, const Tensor& y_NO) {
  const ProfiledOperator operation("wmtp::float8_linear");
  check_product(x, weight, y_NO);
  if (y_NO.is_cuda()) return gpu::float8_product(x, weight, y_NO, /*fast=*/true);
  y_NO.copy_(product(x, weight, y_NO.scalar_type()));
}

void float8_linear_backward_input(const Float8Matrix& dy, const Float8Matrix& weight,
                                  const Tensor& dx_NI) {
  const ProfiledOperator operation("wmtp::float8_linear_backward_input");
  check_product(dy, weight, dx_NI);
  if (dx_NI.is_cuda()) return gpu::float8_product(dy, weight, dx_NI, /*fast=*/false);
  dx_NI.copy_(product(dy, weight, dx_NI.scalar_type()));
}

void float8_linear_backward_weight(const Float8Matrix& dy, const Float8Matrix& x,
                                   const Tensor& dweight_OI, int beta) {
  const ProfiledOperator operation("wmtp::float8_linear_backward_weight");
  WMTP_CHECK(beta == 0 || beta == 1, "float8: beta is 0 or 1");
  check_product(dy, x, dweight_OI);
  if (dweight_OI.is_cuda()) return gpu::float8_product_sum(dy, x, dweight_OI, beta);
  const Tensor sum_OI = product(dy, x, dweight_OI.scalar_type());
  beta == 1 ? dweight_OI.add_(sum_OI) : dweight_OI.copy_(sum_OI);
}

}  // namespace wmtp::kernels
