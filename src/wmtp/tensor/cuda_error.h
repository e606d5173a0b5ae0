// What an error of the CUDA runtime says about another try. The numbers are cudaError_t's, which
// the runtime never renumbers; the program is built without its headers (the plugin holds them to
// each other when it is built).
#pragma once
#include <string_view>

#include "wmtp/core/error.h"

namespace wmtp {

enum class CudaCode : int {
  out_of_memory = 2,
  old_driver = 35,
  devices_unavailable = 46,  // busy, in exclusive mode, or gone
  no_device_function = 98,
  no_device = 100,
  no_kernel_image = 209,
  ecc_uncorrectable = 214,
  nvlink_uncorrectable = 220,
  unsupported_ptx = 222,
  contained = 226,  // a memory fault of the device that other processes do not see
  launch_timeout = 702,
  system_not_ready = 802,  // the fabric's or the driver's services still start
  driver_mismatch = 803,
  mps_connection_failed = 805,
  mps_rpc_failure = 806,
  mps_server_not_ready = 807,
  external_device = 911,  // another device of the fabric failed
  unknown = 999,          // what is left of a device that fell off the bus
};

// device (exit code 75, a launcher tries again): faults of the hardware and of its services, which
// another try may not meet.
// config (78): too little memory, or a GPU or driver these programs were not built for.
// internal (70): all else. A bad launch or address meets every later try as well.
ErrorKind kind_of_cuda_error(int code);
std::string_view hint_of_cuda_error(ErrorKind kind);

}  // namespace wmtp
