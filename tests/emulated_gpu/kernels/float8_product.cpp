// The launcher that the GPU plugin fills with a product of cublasLt, as loops over host memory with
// the library's demands. The sums are fp32 in the order of the contracted axis.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::kernels {

int launch_float8_product(const CudaFloat8Product&, void*);

namespace {

// The number a code stands for, by its fields.
float number_of(unsigned code, Float8Format format) {
  const bool e4m3 = format == Float8Format::e4m3;
  const Float8Shape& shape = e4m3 ? kE4m3Shape : kE5m2Shape;
  const unsigned magnitude = code & 0x7fu, one = 1u << shape.mantissa_bits;
  const unsigned exponent = magnitude / one, fraction = magnitude % one;
  const unsigned normal = exponent > 0 ? exponent - 1 : 0;
  float size = std::ldexp(static_cast<float>(fraction + (exponent > 0 ? one : 0)),
                          static_cast<int>(normal) + shape.least_exponent - shape.mantissa_bits);
  if (size > shape.largest)
    size = !e4m3 && fraction == 0 ? INFINITY : std::numeric_limits<float>::quiet_NaN();
  return code & 0x80u ? -size : size;
}

std::vector<float> numbers_of(const void* operand, Float8Format format, std::int64_t count) {
  std::vector<float> table(256), numbers(static_cast<std::size_t>(count));
  for (unsigned code = 0; code < 256; ++code) table[code] = number_of(code, format);
  const auto* const codes = static_cast<const std::uint8_t*>(operand);
  for (std::int64_t i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = table[codes[i]];
  return numbers;
}

bool on_boundary(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

// No documentation says whether the library adds to an output under scales of rows: it is declined
// here, so that what a caller does then is reached.
bool supported(const CudaFloat8Product& a) {
  return on_boundary(a.left) && on_boundary(a.right) && on_boundary(a.out) &&
         a.contracted % 16 == 0 && a.columns % 16 == 0 && a.out_stride % 4 == 0 &&
         a.out_stride >= a.columns &&
         !(a.left_format == Float8Format::e5m2 && a.right_format == Float8Format::e5m2) &&
         !(a.rowwise && a.beta != 0);
}

}  // namespace

int launch_float8_product(const CudaFloat8Product& a, void*) {
  if (a.rows <= 0 || a.columns <= 0 || a.contracted <= 0) return 1;  // an invalid value
  if (!supported(a)) return kNotSupported;
  const auto left = numbers_of(a.left, a.left_format, a.rows * a.contracted);
  const auto right = numbers_of(a.right, a.right_format, a.columns * a.contracted);
  for (std::int64_t row = 0; row < a.rows; ++row)
    for (std::int64_t column = 0; column < a.columns; ++column) {
      float sum = 0;
      for (std::int64_t k = 0; k < a.contracted; ++k)
        sum += left[static_cast<std::size_t>(row * a.contracted + k)] *
               right[static_cast<std::size_t>(column * a.contracted + k)];
      sum *= a.left_inverse[a.rowwise ? row : 0];
      sum *= a.right_inverse[a.rowwise ? column : 0];
      float& out = a.out[row * a.out_stride + column];
      out = a.beta == 0 ? sum : out + sum;
    }
  return 0;
}

}  // namespace wmtp::kernels
