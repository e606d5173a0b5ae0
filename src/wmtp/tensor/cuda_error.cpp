#include "wmtp/tensor/cuda_error.h"

namespace wmtp {

ErrorKind kind_of_cuda_error(int code) {
  switch (static_cast<CudaCode>(code)) {
    case CudaCode::devices_unavailable:
    case CudaCode::ecc_uncorrectable:
    case CudaCode::nvlink_uncorrectable:
    case CudaCode::contained:
    case CudaCode::launch_timeout:
    case CudaCode::system_not_ready:
    case CudaCode::mps_connection_failed:
    case CudaCode::mps_rpc_failure:
    case CudaCode::mps_server_not_ready:
    case CudaCode::external_device:
    case CudaCode::unknown:
      return ErrorKind::device;
    case CudaCode::out_of_memory:
    case CudaCode::old_driver:
    case CudaCode::no_device_function:
    case CudaCode::no_device:
    case CudaCode::no_kernel_image:
    case CudaCode::unsupported_ptx:
    case CudaCode::driver_mismatch:
      return ErrorKind::config;
  }
  return ErrorKind::internal;
}

std::string_view hint_of_cuda_error(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::device:
      return "a fault of the device: start again, on another GPU if it repeats (nvidia-smi, dmesg)";
    case ErrorKind::config:
      return "this GPU, its driver or its memory does not do (`wmtp doctor`)";
    default:
      return "this is a bug in wmtp; please report it";
  }
}

}  // namespace wmtp
