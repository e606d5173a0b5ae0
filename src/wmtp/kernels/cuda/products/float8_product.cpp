// Products of kernels/float8.h by cublasLt itself, where ATen's scaled product does not serve. It
// cannot add to its output, as weight gradients do, and it tries one algorithm only: for scales of
// rows that may be one that the library has no kernel for.
#include <ATen/cuda/CUDAContextLight.h>

#include <array>

#include "wmtp/kernels/cuda/products/cublaslt.h"

namespace wmtp::kernels {

int launch_float8_product(const CudaFloat8Product&, void*);

namespace cublaslt {
namespace {

constexpr int kMostAlgorithms = 8;  // that are tried, best first

cudaDataType_t type_of_format(Float8Format format) {
  return format == Float8Format::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

// The largest power of two that the address is a multiple of, up to what the library asks for.
std::uint32_t alignment(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::uint32_t bytes = 256;
  while (address % bytes != 0) bytes /= 2;
  return bytes;
}

// cublasLt's matrices are column-major: out^T = right left^T, where the right operand as it lies is
// the transpose of its A. That is the one layout that Hopper has for 8 bits.
void describe(const CudaFloat8Product& a, const Operation& operation) {
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(a.right_inverse));
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(a.left_inverse));
  set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(a.fast));
  if (!a.rowwise) return;
  const std::int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
}

// Under scales of rows no sum is split: an H100 was seen to refuse few rows and a long sum
// (pytorch/ao, issue 4582), where a split is what one would choose. That it is the reason nobody
// has confirmed.
std::uint32_t reductions(const CudaFloat8Product& a) {
  if (a.rowwise) return CUBLASLT_REDUCTION_SCHEME_NONE;
  return reproducible_reductions(a.out_element);
}

// The ranking is the same for the same library, GPU and shape, and so is the first of it that the
// library has a kernel for.
void multiply(const CudaFloat8Product& a, cudaStream_t stream) {
  Operation operation;
  check(cublasLtMatmulDescCreate(&operation.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  describe(a, operation);
  Layout right, left, out;
  create(right, type_of_format(a.right_format), a.contracted, a.columns, a.contracted);
  create(left, type_of_format(a.left_format), a.contracted, a.rows, a.contracted);
  create(out, type_of(a.out_element), a.columns, a.rows, a.out_stride);
  const cublasLtHandle_t library = at::cuda::getCurrentCUDABlasLtHandle();
  const std::size_t workspace = at::cuda::getCUDABlasLtWorkspaceSize();
  Preference preference;
  prefer(preference, workspace, reductions(a),
         {alignment(a.right), alignment(a.left), alignment(a.out)});
  std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> ranked{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(library, operation.handle, right.handle, left.handle,
                                       out.handle, out.handle, preference.handle, kMostAlgorithms,
                                       ranked.data(), &found));
  const float alpha = 1, beta = static_cast<float>(a.beta);
  for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i) {
    if (ranked[i].state != CUBLAS_STATUS_SUCCESS) continue;
    const cublasStatus_t status =
        cublasLtMatmul(library, operation.handle, &alpha, a.right, right.handle, a.left,
                       left.handle, &beta, a.out, out.handle, a.out, out.handle, &ranked[i].algo,
                       at::cuda::getCUDABlasLtWorkspace(), workspace, stream);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) return check(status);
  }
  throw Failed{cudaErrorNotSupported};
}

}  // namespace
}  // namespace cublaslt

int launch_float8_product(const CudaFloat8Product& a, void* stream) {
  return cublaslt::code_of([&] { cublaslt::multiply(a, static_cast<cudaStream_t>(stream)); });
}

}  // namespace wmtp::kernels
