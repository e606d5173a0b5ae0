// The launcher that the GPU plugin fills with a product of cublasLt, as loops over host memory with
// the library's demands. The sums are fp32 in the order of the contracted axis, fast or not.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "emulated_gpu/kernels/runtime/streams.h"
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

std::int64_t bytes_of(Element element) {
  return element == Element::fp32 ? 4 : 2;
}

// Two kinds are declined, so that tests reach what a caller does then. Few rows under a long sum
// stand for M <= 256, N = 3072, K = 9216, which ends in CUBLAS_STATUS_NOT_SUPPORTED on an H100,
// while more rows, K = 3072 or one scale do not (pytorch/ao, issue 4582). Of sums that are added to
// an output no documentation says whether the library has them.
bool declined_rowwise(const CudaFloat8Product& a) {
  constexpr std::int64_t kFewRows = 16, kLongSum = 512;
  return a.beta != 0 || (a.rows <= kFewRows && a.contracted >= kLongSum);
}

bool supported(const CudaFloat8Product& a) {
  return on_boundary(a.left) && on_boundary(a.right) && on_boundary(a.out) &&
         on_boundary(a.left_inverse) && on_boundary(a.right_inverse) && a.contracted % 16 == 0 &&
         a.columns % 16 == 0 && a.out_stride * bytes_of(a.out_element) % 16 == 0 &&
         a.out_stride >= a.columns &&
         !(a.left_format == Float8Format::e5m2 && a.right_format == Float8Format::e5m2) &&
         !(a.rowwise && declined_rowwise(a));
}

// out[index] = beta out[index] + sum
void write(const CudaFloat8Product& a, std::int64_t index, float sum) {
  const auto before = [&](float out) { return a.beta == 0 ? 0.0f : out; };
  if (a.out_element == Element::fp32) {
    float& out = static_cast<float*>(a.out)[index];
    out = before(out) + sum;
  } else if (a.out_element == Element::bf16) {
    auto& out = static_cast<__nv_bfloat16*>(a.out)[index];
    out = __float2bfloat16_rn(before(__bfloat162float(out)) + sum);
  } else {
    auto& out = static_cast<__half*>(a.out)[index];
    out = __float2half_rn(before(__half2float(out)) + sum);
  }
}

void multiply(const CudaFloat8Product& a) {
  const auto left = numbers_of(a.left, a.left_format, a.rows * a.contracted);
  const auto right = numbers_of(a.right, a.right_format, a.columns * a.contracted);
  for (std::int64_t row = 0; row < a.rows; ++row)
    for (std::int64_t column = 0; column < a.columns; ++column) {
      float sum = 0;
      for (std::int64_t k = 0; k < a.contracted; ++k)
        sum += left[static_cast<std::size_t>(row * a.contracted + k)] *
               right[static_cast<std::size_t>(column * a.contracted + k)];
      if (a.left_inverse) sum *= a.left_inverse[a.rowwise ? row : 0];
      if (a.right_inverse) sum *= a.right_inverse[a.rowwise ? column : 0];
      write(a, row * a.out_stride + column, sum);
    }
}

}  // namespace

int launch_float8_product(const CudaFloat8Product& a, void* stream) {
  if (a.rows <= 0 || a.columns <= 0 || a.contracted <= 0) return 1;  // an invalid value
  if (!supported(a)) return kNotSupported;
  emulated::give(static_cast<cudaStream_t>(stream), [a] { multiply(a); });
  return 0;
}

}  // namespace wmtp::kernels
