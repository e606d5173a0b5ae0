// The one symbol of libwmtp_cuda.so.
#include "wmtp/comm/cuda/nccl_communicator.h"
#include "wmtp/comm/groups.h"
#include "wmtp/cuda_plugin/services.h"
#include "wmtp/kernels/cuda/launchers.h"
#include "wmtp/tensor/cuda_plugin.h"

extern "C" bool wmtp_cuda_plugin(unsigned abi, wmtp::CudaTables* tables) {
  if (abi != wmtp::kCudaPluginAbi) return false;
  tables->services = wmtp::cuda_plugin::services();
  tables->kernels = &wmtp::kernels::cuda_kernels();
  tables->nccl_factory = &wmtp::comm::make_nccl_communicator;
  return true;
}
