// Products on a GPU by algorithms of cublasLt that were timed here, one for each shape, where they
// are faster than what the library does unasked (runtime.gemm_choice: measured). They belong to the
// process, as the GPU does. THREADS: one.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/kernels/cuda/products/measured_product.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels::gpu {

struct MeasuredProduct {
  std::string product;  // dtypes, sizes and how the matrices lie, in words
  std::optional<ProductAlgorithm> algorithm = {};  // absent: left to the library, nothing is faster
};

inline constexpr std::size_t kMostMeasured = 256;   // shapes; others go to the library
inline constexpr std::int64_t kMeasuredSizes = 64;  // what the sizes of a product are multiples of

// What the algorithms are of: those of another GPU or library mean nothing here.
std::string measuring_library();

// From now on products are measured, and of `known` ones the algorithm is taken that was.
// REQUIRES a GPU.
void measure_products(const std::vector<MeasuredProduct>& known);
void leave_products_to_library();  // as at the start
std::size_t num_measured_products();
std::vector<MeasuredProduct> measured_products();  // in the order of their words

// out = alpha left right + beta out; matrices of any row stride, the left and the right one also
// turned. False, with nothing done, where products are not measured or this one is not: operands of
// four bytes, sizes that are no multiples of kMeasuredSizes, addresses off 16 bytes. The first of a
// shape that overwrites its output is measured beside `by_library`, which computes the same, and
// the host waits; one that adds before that is left to the library.
bool measured_product(const Tensor& left_RK, const Tensor& right_KC, const Tensor& out_RC,
                      double alpha, double beta, const std::function<void()>& by_library);

}  // namespace wmtp::kernels::gpu
