// Products of kernels/float8.h by cublasLt itself, where ATen's scaled product does not serve. It
// cannot add to its output, as weight gradients do, and it tries one algorithm only: for scales of
// rows that may be one that the library has no kernel for.
#include <ATen/cuda/CUDAContextLight.h>
#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <exception>

#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::kernels {

int launch_float8_product(const CudaFloat8Product&, void*);

namespace {

static_assert(kNotSupported == cudaErrorNotSupported);

constexpr int kMostAlgorithms = 8;  // that are tried, best first

// A step that failed, as the runtime names it; carried to the launcher's end by an exception.
struct Failed {
  cudaError_t code;
};

void check(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return;
    case CUBLAS_STATUS_NOT_SUPPORTED:
      throw Failed{cudaErrorNotSupported};
    case CUBLAS_STATUS_ALLOC_FAILED:
      throw Failed{cudaErrorMemoryAllocation};
    case CUBLAS_STATUS_INVALID_VALUE:
      throw Failed{cudaErrorInvalidValue};
    case CUBLAS_STATUS_EXECUTION_FAILED:
      throw Failed{cudaErrorLaunchFailure};
    default:
      throw Failed{cudaErrorUnknown};
  }
}

// A handle of cublasLt with its end.
template <class T, cublasStatus_t (*kDestroy)(T)>
struct Owned {
  T handle = nullptr;

  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle) kDestroy(handle);
  }
};
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(operation.handle, attribute, &value, sizeof(value)));
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.handle, attribute, &value, sizeof(value)));
}

cudaDataType_t type_of(Float8Format format) {
  return format == Float8Format::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}
cudaDataType_t type_of(Element element) {
  return element == Element::fp32   ? CUDA_R_32F
         : element == Element::bf16 ? CUDA_R_16BF
                                    : CUDA_R_16F;
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

void create(Layout& layout, cudaDataType_t type, std::int64_t rows, std::int64_t columns,
            std::int64_t leading) {
  check(cublasLtMatrixLayoutCreate(&layout.handle, type, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), leading));
}

// How the parts of a sum that was split may be put together. They are never added in place by
// atomic additions, which would differ from run to run, nor rounded to 16 bits before. Under scales
// of rows no sum is split: an H100 was seen to refuse few rows and a long sum (pytorch/ao, issue
// 4582), where a split is what one would choose. That it is the reason nobody has confirmed.
std::uint32_t reductions(const CudaFloat8Product& a) {
  if (a.rowwise) return CUBLASLT_REDUCTION_SCHEME_NONE;
  const std::uint32_t in_fp32 = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return a.out_element == Element::fp32 ? in_fp32 | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE : in_fp32;
}

void prefer(const CudaFloat8Product& a, std::size_t workspace, Preference& preference) {
  check(cublasLtMatmulPreferenceCreate(&preference.handle));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions(a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(a.right));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(a.left));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(a.out));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(a.out));
}

// The ranking is the same for the same library, GPU and shape, and so is the first of it that the
// library has a kernel for.
void multiply(const CudaFloat8Product& a, cudaStream_t stream) {
  Operation operation;
  check(cublasLtMatmulDescCreate(&operation.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  describe(a, operation);
  Layout right, left, out;
  create(right, type_of(a.right_format), a.contracted, a.columns, a.contracted);
  create(left, type_of(a.left_format), a.contracted, a.rows, a.contracted);
  create(out, type_of(a.out_element), a.columns, a.rows, a.out_stride);
  const cublasLtHandle_t library = at::cuda::getCurrentCUDABlasLtHandle();
  const std::size_t workspace = at::cuda::getCUDABlasLtWorkspaceSize();
  Preference preference;
  prefer(a, workspace, preference);
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

int launch_float8_product(const CudaFloat8Product& a, void* stream) {
  try {
    multiply(a, static_cast<cudaStream_t>(stream));
    return cudaSuccess;
  } catch (const Failed& failed) {
    return failed.code;
  } catch (const std::exception&) {  // ATen's, for want of the workspace's memory
    return cudaErrorMemoryAllocation;
  }
}

}  // namespace wmtp::kernels
