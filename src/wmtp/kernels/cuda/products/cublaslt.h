// What the products of this folder share of cublasLt: handles with their ends, errors, layouts.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <exception>

#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::kernels::cublaslt {

static_assert(kNotSupported == cudaErrorNotSupported);

// A step that failed, as the runtime names it; carried to the launcher's end by an exception.
struct Failed {
  cudaError_t code;
};

inline void check(cublasStatus_t status) {
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

// What a launcher returns: 0, or the code of the step of `work` that failed.
template <class Work>
int code_of(const Work& work) {
  try {
    work();
    return cudaSuccess;
  } catch (const Failed& failed) {
    return failed.code;
  } catch (const std::exception&) {  // ATen's, for want of the workspace's memory
    return cudaErrorMemoryAllocation;
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

inline cudaDataType_t type_of(Element element) {
  return element == Element::fp32   ? CUDA_R_32F
         : element == Element::bf16 ? CUDA_R_16BF
                                    : CUDA_R_16F;
}

// Column by column, as the library has matrices.
inline void create(Layout& layout, cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                   std::int64_t leading) {
  check(cublasLtMatrixLayoutCreate(&layout.handle, type, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), leading));
}

// How the parts of a sum that was split may be put together. They are never added in place by
// atomic additions, which would differ from run to run, nor rounded to 16 bits before.
inline std::uint32_t reproducible_reductions(Element out) {
  const std::uint32_t in_fp32 = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return out == Element::fp32 ? in_fp32 | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE : in_fp32;
}

// What addresses are multiples of, in bytes.
struct Alignments {
  std::uint32_t a, b, out;
};

inline void prefer(Preference& preference, std::size_t workspace, std::uint32_t reductions,
                   const Alignments& bytes) {
  check(cublasLtMatmulPreferenceCreate(&preference.handle));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes.a);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes.b);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes.out);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes.out);
}

}  // namespace wmtp::kernels::cublaslt
