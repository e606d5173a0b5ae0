#include "wmtp/kernels/gpu/float8.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "wmtp/kernels/support/cuda_launch.h"

namespace wmtp::kernels::gpu {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes, of what the products read and write

Float8Format format_of_values(const Float8Matrix& operand) {
  return operand.values_RK.scalar_type() == at::kFloat8_e4m3fn ? Float8Format::e4m3
                                                               : Float8Format::e5m2;
}

// The right operand has 16 rows at least: its scales tell the recipe where one row of the left one
// would not.
bool rowwise(const Float8Matrix& a, const Float8Matrix& b) {
  const bool found = b.inverse.numel() > 1;
  WMTP_CHECK(a.inverse.numel() == (found ? a.values_RK.size(0) : 1),
             "float8: one operand has one scale, the other one for each row");
  return found;
}

bool can_be_written(const Tensor& out) {
  const auto size = static_cast<std::int64_t>(out.element_size());
  return reinterpret_cast<std::uintptr_t>(out.data_ptr()) % kAlignment == 0 && out.stride(1) == 1 &&
         out.stride(0) >= out.size(1) && out.stride(0) * size % kAlignment == 0;
}

Tensor room_for(const Tensor& out, DType dtype) {
  return at::empty(out.sizes(), out.options().dtype(dtype));
}

// Without `of_columns` one number of all.
void launch_amax(const Tensor& x_RC, const Tensor& of_rows, const Tensor& of_columns) {
  CudaFloat8Amax args{};
  args.element = element_of("float8_amax", x_RC);
  args.x = data_of(x_RC);
  args.of_rows = floats_of(of_rows), args.of_columns = floats_of(of_columns);
  args.rows = x_RC.size(0), args.columns = x_RC.size(1), args.x_stride = row_stride(x_RC);
  if (x_RC.numel() > 0) check_launch("float8_amax", gpu_kernels().float8_amax(args, gpu_stream()));
}

struct Product {
  const Float8Matrix &a, &b;
  bool fast;
};

enum class Scaling { within, left_out };

// out = beta out + A B^T. False where cublasLt has no such product.
bool multiply(const Product& of, const Tensor& out, int beta, Scaling scaling = Scaling::within) {
  CudaFloat8Product args{};
  args.out_element = element_of("float8 product", out);
  args.left_format = format_of_values(of.a), args.right_format = format_of_values(of.b);
  args.fast = of.fast;
  args.left = data_of(of.a.values_RK), args.right = data_of(of.b.values_RK);
  if (scaling == Scaling::within) {
    args.rowwise = rowwise(of.a, of.b);
    args.left_inverse = floats_of(of.a.inverse), args.right_inverse = floats_of(of.b.inverse);
  }
  args.out = data_of(out);
  args.rows = of.a.values_RK.size(0), args.columns = of.b.values_RK.size(0);
  args.contracted = of.a.values_RK.size(1), args.out_stride = row_stride(out);
  args.beta = beta;
  const int code = gpu_kernels().float8_product(args, gpu_stream());
  if (code == kNotSupported) return false;
  check_launch("float8 product", code);
  return true;
}

// cublasLt has scales of rows on compute capability 9.0 only, and there not for every shape. They
// are powers of two, so that a sum in fp32 has the same digits when they come afterwards.
bool multiply_and_scale(const Product& of, const Tensor& sum) {
  if (!rowwise(of.a, of.b) || !multiply(of, sum, 0, Scaling::left_out)) return false;
  sum.mul_(of.a.inverse.view({-1, 1})).mul_(of.b.inverse.view({1, -1}));
  return true;
}

Error no_such_product(const Product& of) {
  const auto named = [](const Float8Matrix& operand) {
    return fmt::format("{} [{}, {}]",
                       format_of_values(operand) == Float8Format::e4m3 ? "e4m3" : "e5m2",
                       operand.values_RK.size(0), operand.values_RK.size(1));
  };
  const bool by_rows = rowwise(of.a, of.b);
  return {ErrorKind::config, "kernels",
          fmt::format("float8 product: cublasLt says CUBLAS_STATUS_NOT_SUPPORTED for {} by {}, {}",
                      named(of.a), named(of.b),
                      by_rows ? "rowwise, with its scales and without" : "tensorwise"),
          "set training.float8: off"};
}

// Where cublasLt does not write or add to `out` as it is, the sum is one of its own, in fp32.
void multiply_into(const Product& of, const Tensor& out, int beta) {
  if (of.a.values_RK.size(1) == 0) {
    if (beta == 0) out.zero_();
    return;
  }
  const bool direct = (beta == 0 || out.scalar_type() == kFloat32) && can_be_written(out);
  if (direct && multiply(of, out, beta)) return;
  const Tensor sum = room_for(out, kFloat32);
  if (!multiply(of, sum, 0) && !multiply_and_scale(of, sum)) throw no_such_product(of);
  beta == 1 ? out.add_(sum) : out.copy_(sum);
}

}  // namespace

Float8Amax float8_amax(const Tensor& x_RC, Float8Recipe recipe) {
  const bool rowwise = recipe == Float8Recipe::rowwise;
  const auto fp32 = x_RC.options().dtype(kFloat32);
  Float8Amax amax;
  amax.of_rows = at::zeros({rowwise ? x_RC.size(0) : 1}, fp32);
  amax.of_columns = rowwise ? at::zeros({x_RC.size(1)}, fp32) : amax.of_rows;
  launch_amax(x_RC, amax.of_rows, rowwise ? amax.of_columns : Tensor());
  return amax;
}

void raise_float8_amax(const Tensor& x_RC, const Tensor& amax) {
  launch_amax(x_RC, amax, {});
}

void quantise(const Float8Quantise& args, Float8Forms& forms) {
  CudaFloat8Quantise launch{};
  launch.element = element_of("quantise", args.x_RC);
  launch.format = format_of(args.recipe, args.role);
  launch.rowwise = args.recipe == Float8Recipe::rowwise;
  launch.x = data_of(args.x_RC);
  launch.amax_of_rows = floats_of(args.amax.of_rows);
  launch.amax_of_columns = floats_of(args.amax.of_columns);
  launch.rows = args.x_RC.size(0), launch.columns = args.x_RC.size(1);
  launch.x_stride = row_stride(args.x_RC);
  if (forms.rows.defined()) {
    forms.rows.inverse = at::empty_like(args.amax.of_rows);
    launch.by_rows = static_cast<std::uint8_t*>(data_of(forms.rows.values_RK));
    launch.inverse_of_rows = floats_of(forms.rows.inverse);
  }
  if (forms.columns.defined()) {
    forms.columns.inverse = at::empty_like(args.amax.of_columns);
    launch.by_columns = static_cast<std::uint8_t*>(data_of(forms.columns.values_RK));
    launch.inverse_of_columns = floats_of(forms.columns.inverse);
    launch.padded_rows = forms.columns.values_RK.size(1);
  }
  check_launch("quantise", gpu_kernels().float8_quantise(launch, gpu_stream()));
}

void float8_turn(const Tensor& rows_RC, const Tensor& columns_CR) {
  const CudaFloat8Turn launch{static_cast<const std::uint8_t*>(data_of(rows_RC)),
                              static_cast<std::uint8_t*>(data_of(columns_CR)), rows_RC.size(0),
                              rows_RC.size(1)};
  if (rows_RC.numel() > 0)
    check_launch("float8_turn", gpu_kernels().float8_turn(launch, gpu_stream()));
}

void float8_product(const Float8Matrix& a, const Float8Matrix& b, const Tensor& out, bool fast) {
  element_of("float8 product", out);
  if (out.numel() == 0) return;
  if (rowwise(a, b)) return multiply_into({a, b, fast}, out, 0);
  Tensor to = can_be_written(out) ? out : room_for(out, out.scalar_type());
  at::_scaled_mm_out(to, a.values_RK, b.values_RK.t(), a.inverse, b.inverse, /*bias=*/{},
                     /*scale_result=*/{}, out.scalar_type(), fast);
  if (!to.is_same(out)) out.copy_(to);
}

void float8_product_sum(const Float8Matrix& a, const Float8Matrix& b, const Tensor& out, int beta) {
  element_of("float8 product", out);
  if (out.numel() > 0) multiply_into({a, b, /*fast=*/false}, out, beta);
}

}  // namespace wmtp::kernels::gpu
