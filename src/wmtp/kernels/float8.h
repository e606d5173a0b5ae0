// Linear layers on operands of 8 bits, as the scaled matrix products of GPUs of compute capability
// 9.0 take them. The CPU's bodies are the exact definition; on a GPU amax, scales, bytes and
// inverses have the same bits, and products add up in fewer bits than fp32 has. The GPU's bodies
// have never run on one (tests/emulated_gpu runs them).
//   scale       s = fp32(largest / max(amax, 1e-12)), the division in double; rowwise takes the
//               power of two at or below it
//   quantised   q = float8_of(fp32(x) * s), the product rounded to fp32
//   product     (sum over k of qa qb) * (1 / sa) * (1 / sb), in that order
// An amax of infinity gives the scale 0, whose inverse makes a NaN of every number of the product:
// so it shows where a saturating conversion alone would hide it. A NaN makes the scale a NaN.
//
// Every operand is kept as [rows, contracted], the contracted axis contiguous, which is the only
// order Hopper has. Of a matrix [R, C] there are two such forms: `rows` as it lies (C is
// contracted), and `columns`, transposed (R is contracted, padded with zeros to a multiple of 16).
//   forward  y  = x W^T    x.rows, W.rows
//   input    dx = dy W     dy.rows, W.columns
//   weight   dW = dy^T x   dy.columns, x.columns: their padding is of tokens, which have any number
// I and O are multiples of 16. N tokens, I inputs, O outputs, R x C any matrix.
#pragma once
#include <cstdint>

#include "wmtp/kernels/codes/float8_format.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

inline constexpr std::int64_t kFloat8Multiple = 16;
// tensorwise: one scale for an operand. rowwise: one for each row of its form, powers of two.
enum class Float8Recipe { off, tensorwise, rowwise };
// What an operand is: the gradients of outputs are e5m2 in a tensorwise product, all else is e4m3.
enum class Float8Role { weight, input, output_grad };

DType dtype_of(Float8Format format);
double largest_of(Float8Format format);
Float8Format format_of(Float8Recipe recipe, Float8Role role);

// Clamped to the largest number, then rounded to the nearest with ties to even. A NaN is 7f.
std::uint8_t float8_of(float x, Float8Format format);
// What is multiplied with; NaN for NaN, 0 for infinity.
float float8_scale(float amax, Float8Format format, Float8Recipe recipe);

// max |x|, fp32; 0 of nothing, NaN where there is one. Tensorwise both are the same one number.
struct Float8Amax {
  Tensor of_rows, of_columns;  // [1] tensorwise; [R] and [C] rowwise
};
// REQUIRES a recipe that is not off.
Float8Amax float8_amax(const Tensor& x_RC, Float8Recipe recipe);

struct Float8Matrix {
  Tensor values_RK;  // of a float8 dtype, contiguous
  Tensor inverse;    // fp32, 1 / s: [1] tensorwise, [R] rowwise

  bool defined() const { return values_RK.defined(); }
};
struct Float8Forms {
  Float8Matrix rows, columns;  // those that were asked for
};
struct Float8Quantise {
  Tensor x_RC;  // fp32, bf16, fp16, or on a CPU fp64 (taken to fp32 first)
  Float8Recipe recipe = Float8Recipe::off;
  Float8Role role = Float8Role::input;
  Float8Amax amax;  // of x, or of the whole matrix that x is a part of
  bool rows = true, columns = true;
};
Float8Forms quantise(const Float8Quantise& args);
// With the amax of x itself.
Float8Forms quantise(const Tensor& x_RC, Float8Recipe recipe, Float8Role role, bool rows,
                     bool columns);

// A weight with one scale whose parts are kept apart, as ranks keep theirs. Parts are flat
// stretches in the order of the rows, of any length; amax is fp32 [1]. Raises amax to max |x|, a
// NaN above all.
void raise_float8_amax(const Tensor& x, const Tensor& amax);
// As quantise() gives `rows`, with the amax of the whole: as many bytes (e4m3).
void quantise_part(const Tensor& x, const Tensor& amax, const Tensor& values);
// 1 / s of weights with such an amax each, [A].
Tensor float8_inverse(const Tensor& amax_A);
// The `columns` of a matrix with one scale whose `rows` these are. REQUIRES multiples of 16.
Float8Matrix columns_of(const Float8Matrix& rows);

// Outputs are overwritten; fp32, bf16 and fp16 ones are rounded once from the fp32 result, fp64
// ones (on a CPU) are summed in fp64. On a GPU the forward alone may accumulate fast.
void float8_linear(const Float8Matrix& x, const Float8Matrix& weight, const Tensor& y_NO);
void float8_linear_backward_input(const Float8Matrix& dy, const Float8Matrix& weight,
                                  const Tensor& dx_NI);
// dW = beta dW + dy^T x with a beta of 0 or 1; the product is rounded before it is added.
void float8_linear_backward_weight(const Float8Matrix& dy, const Float8Matrix& x,
                                   const Tensor& dweight_OI, int beta = 1);

}  // namespace wmtp::kernels
