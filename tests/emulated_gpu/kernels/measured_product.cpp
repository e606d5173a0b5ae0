// The slots that the GPU plugin fills with products of cublasLt, as loops over host memory. There
// are three algorithms, which add in different orders, so that it shows which one was taken; the
// last one is not there for long sums, as the library's lists are longer than what it takes in the
// end.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>
#include <vector>

#include "emulated_gpu/kernels/runtime/streams.h"
#include "wmtp/kernels/cuda/products/measured_product.h"

namespace wmtp::kernels {

int list_product_algorithms(const CudaProduct&, std::vector<ProductAlgorithm>*);
int launch_product(const CudaProduct&, const ProductAlgorithm&, void*);
std::string product_library();

namespace {

constexpr std::uint64_t kForward = 1, kBackward = 2, kHalves = 3;
constexpr std::int64_t kLongestInHalves = 1024;

float number_at(const void* values, Element element, std::int64_t index) {
  if (element == Element::bf16)
    return __bfloat162float(static_cast<const __nv_bfloat16*>(values)[index]);
  return __half2float(static_cast<const __half*>(values)[index]);
}

// Row by row as the product reads it, whatever way it lies.
std::vector<float> rows_of(const void* matrix, Element element, bool turned, std::int64_t stride,
                           std::int64_t rows, std::int64_t columns) {
  std::vector<float> numbers(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      numbers[static_cast<std::size_t>(r * columns + c)] =
          number_at(matrix, element, turned ? c * stride + r : r * stride + c);
  return numbers;
}

void write(const CudaProduct& a, std::int64_t index, float sum) {
  const auto result = [&](float before) {
    return a.alpha * sum + (a.beta == 0 ? 0.0f : a.beta * before);
  };
  if (a.out_element == Element::fp32) {
    float& out = static_cast<float*>(a.out)[index];
    out = result(out);
  } else if (a.out_element == Element::bf16) {
    auto& out = static_cast<__nv_bfloat16*>(a.out)[index];
    out = __float2bfloat16_rn(result(__bfloat162float(out)));
  } else {
    auto& out = static_cast<__half*>(a.out)[index];
    out = __float2half_rn(result(__half2float(out)));
  }
}

// Sums of one row over part of the contracted axis.
void add_up(const CudaProduct& a, const float* left_row, const std::vector<float>& right,
            std::int64_t begin, std::int64_t end, bool backward, std::vector<float>& sums) {
  for (std::int64_t step = begin; step < end; ++step) {
    const std::int64_t k = backward ? end - 1 - (step - begin) : step;
    const float* const right_row = right.data() + k * a.columns;
    for (std::int64_t c = 0; c < a.columns; ++c)
      sums[static_cast<std::size_t>(c)] += left_row[k] * right_row[c];
  }
}

bool on_boundary(const void* pointer, std::int64_t stride, Element element) {
  const std::int64_t size = element == Element::fp32 ? 4 : 2;
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0 && stride * size % 16 == 0;
}

bool taken(const CudaProduct& a, std::uint64_t order) {
  return on_boundary(a.left, a.left_stride, a.element) &&
         on_boundary(a.right, a.right_stride, a.element) &&
         on_boundary(a.out, a.out_stride, a.out_element) && order >= kForward && order <= kHalves &&
         (order != kHalves || a.contracted <= kLongestInHalves);
}

void multiply(const CudaProduct& a, std::uint64_t order) {
  const auto left = rows_of(a.left, a.element, a.left_turned, a.left_stride, a.rows, a.contracted);
  const auto right =
      rows_of(a.right, a.element, a.right_turned, a.right_stride, a.contracted, a.columns);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    std::vector<float> sums(static_cast<std::size_t>(a.columns)), rest = sums;
    const std::int64_t middle = order == kHalves ? a.contracted / 2 : a.contracted;
    const float* const left_row = left.data() + r * a.contracted;
    add_up(a, left_row, right, 0, middle, order == kBackward, sums);
    add_up(a, left_row, right, middle, a.contracted, false, rest);
    for (std::int64_t c = 0; c < a.columns; ++c) {
      const auto at = static_cast<std::size_t>(c);
      write(a, r * a.out_stride + c, sums[at] + rest[at]);
    }
  }
}

}  // namespace

int list_product_algorithms(const CudaProduct&, std::vector<ProductAlgorithm>* algorithms) {
  for (const std::uint64_t order : {kForward, kBackward, kHalves}) algorithms->push_back({order});
  return 0;
}

int launch_product(const CudaProduct& a, const ProductAlgorithm& algorithm, void* stream) {
  const std::uint64_t order = algorithm[0];
  if (!taken(a, order)) return kNotSupported;
  emulated::give(static_cast<cudaStream_t>(stream), [a, order] { multiply(a, order); });
  return 0;
}

std::string product_library() {
  return "emulated products 1";
}

}  // namespace wmtp::kernels
