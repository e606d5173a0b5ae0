// The library's part of kernels/gpu/products.h: which algorithms it has for a product, and one of
// them at work.
#include <ATen/cuda/CUDAContextLight.h>

#include <cstring>
#include <vector>

#include "wmtp/kernels/cuda/products/cublaslt.h"
#include "wmtp/kernels/cuda/products/measured_product.h"

namespace wmtp::kernels {

int list_product_algorithms(const CudaProduct&, std::vector<ProductAlgorithm>*);
int launch_product(const CudaProduct&, const ProductAlgorithm&, void*);
std::string product_library();

namespace cublaslt {
namespace {

static_assert(sizeof(ProductAlgorithm) == sizeof(cublasLtMatmulAlgo_t));

constexpr int kMostAlgorithms = 8;  // of hundreds; those behind them are seldom the fastest
constexpr std::uint32_t kAlignment = 16;

// A product in the library's words. Its matrices are column-major: out^T = right^T left^T, so that
// the right operand is its A.
struct Described {
  Operation operation;
  Layout right, left, out;

  explicit Described(const CudaProduct& a) {
    check(cublasLtMatmulDescCreate(&operation.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, a.right_turned ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, a.left_turned ? CUBLAS_OP_T : CUBLAS_OP_N);
    const std::int64_t right_width = a.right_turned ? a.contracted : a.columns;
    const std::int64_t left_width = a.left_turned ? a.rows : a.contracted;
    create(right, type_of(a.element), right_width, a.columns + a.contracted - right_width,
           a.right_stride);
    create(left, type_of(a.element), left_width, a.rows + a.contracted - left_width, a.left_stride);
    create(out, type_of(a.out_element), a.columns, a.rows, a.out_stride);
  }
};

void list(const CudaProduct& a, std::vector<ProductAlgorithm>& algorithms) {
  const Described product(a);
  Preference preference;
  prefer(preference, at::cuda::getCUDABlasLtWorkspaceSize(), reproducible_reductions(a.out_element),
         {kAlignment, kAlignment, kAlignment});
  std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> ranked{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(at::cuda::getCurrentCUDABlasLtHandle(),
                                       product.operation.handle, product.right.handle,
                                       product.left.handle, product.out.handle, product.out.handle,
                                       preference.handle, kMostAlgorithms, ranked.data(), &found));
  for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i) {
    if (ranked[i].state != CUBLAS_STATUS_SUCCESS) continue;
    std::memcpy(algorithms.emplace_back().data(), &ranked[i].algo, sizeof(ranked[i].algo));
  }
}

void multiply(const CudaProduct& a, const ProductAlgorithm& algorithm, cudaStream_t stream) {
  const Described product(a);
  cublasLtMatmulAlgo_t chosen{};
  std::memcpy(&chosen, algorithm.data(), sizeof(chosen));
  check(cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), product.operation.handle, &a.alpha,
                       a.right, product.right.handle, a.left, product.left.handle, &a.beta, a.out,
                       product.out.handle, a.out, product.out.handle, &chosen,
                       at::cuda::getCUDABlasLtWorkspace(), at::cuda::getCUDABlasLtWorkspaceSize(),
                       stream));
}

}  // namespace
}  // namespace cublaslt

int list_product_algorithms(const CudaProduct& a, std::vector<ProductAlgorithm>* algorithms) {
  return cublaslt::code_of([&] { cublaslt::list(a, *algorithms); });
}

int launch_product(const CudaProduct& a, const ProductAlgorithm& algorithm, void* stream) {
  return cublaslt::code_of(
      [&] { cublaslt::multiply(a, algorithm, static_cast<cudaStream_t>(stream)); });
}

std::string product_library() {
  return "cublasLt " + std::to_string(cublasLtGetVersion()) + ", workspace " +
         std::to_string(at::cuda::getCUDABlasLtWorkspaceSize());
}

}  // namespace wmtp::kernels
