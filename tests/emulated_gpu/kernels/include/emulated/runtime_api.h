// The part of the runtime's interface that launchers call. The device is an H100 or H200 as far as
// its limits go.
#pragma once
#include <cstddef>

using cudaStream_t = struct CUstream_st*;

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorInvalidConfiguration = 9,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

// Of this host thread's last launches; the second one forgets it.
cudaError_t cudaPeekAtLastError();
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);

cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);

namespace wmtp::emulated {

inline constexpr std::size_t kSharedByDefault = 48 * 1024, kSharedAtMost = 227 * 1024;

cudaError_t set_dynamic_shared_limit(const void* kernel, int bytes);

}  // namespace wmtp::emulated

template <class... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute, int value) {
  return wmtp::emulated::set_dynamic_shared_limit(reinterpret_cast<const void*>(kernel), value);
}
