// Holds tensor/cuda_error.h, which is compiled without CUDA's headers, to them.
#include <cuda_runtime_api.h>

#include "wmtp/tensor/cuda_error.h"

namespace wmtp {

static_assert(static_cast<int>(CudaCode::out_of_memory) == cudaErrorMemoryAllocation);
static_assert(static_cast<int>(CudaCode::old_driver) == cudaErrorInsufficientDriver);
static_assert(static_cast<int>(CudaCode::devices_unavailable) == cudaErrorDevicesUnavailable);
static_assert(static_cast<int>(CudaCode::no_device_function) == cudaErrorInvalidDeviceFunction);
static_assert(static_cast<int>(CudaCode::no_device) == cudaErrorNoDevice);
static_assert(static_cast<int>(CudaCode::no_kernel_image) == cudaErrorNoKernelImageForDevice);
static_assert(static_cast<int>(CudaCode::ecc_uncorrectable) == cudaErrorECCUncorrectable);
static_assert(static_cast<int>(CudaCode::nvlink_uncorrectable) == cudaErrorNvlinkUncorrectable);
static_assert(static_cast<int>(CudaCode::unsupported_ptx) == cudaErrorUnsupportedPtxVersion);
static_assert(static_cast<int>(CudaCode::contained) == cudaErrorContained);
static_assert(static_cast<int>(CudaCode::launch_timeout) == cudaErrorLaunchTimeout);
static_assert(static_cast<int>(CudaCode::system_not_ready) == cudaErrorSystemNotReady);
static_assert(static_cast<int>(CudaCode::driver_mismatch) == cudaErrorSystemDriverMismatch);
static_assert(static_cast<int>(CudaCode::mps_connection_failed) == cudaErrorMpsConnectionFailed);
static_assert(static_cast<int>(CudaCode::mps_rpc_failure) == cudaErrorMpsRpcFailure);
static_assert(static_cast<int>(CudaCode::mps_server_not_ready) == cudaErrorMpsServerNotReady);
static_assert(static_cast<int>(CudaCode::external_device) == cudaErrorExternalDevice);
static_assert(static_cast<int>(CudaCode::unknown) == cudaErrorUnknown);

}  // namespace wmtp
