// The one symbol of a GPU plugin (tensor/cuda_plugin.h), for a GPU that is not there.
#include <unistd.h>

#include <chrono>

#include "emulated_gpu/device/communicator.h"
#include "emulated_gpu/device/host_waits.h"
#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/packed_attention.h"
#include "emulated_gpu/device/recording.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels {

int list_product_algorithms(const CudaProduct&, std::vector<ProductAlgorithm>*);
int launch_product(const CudaProduct&, const ProductAlgorithm&, void*);
std::string product_library();

}  // namespace wmtp::kernels

namespace wmtp::emulated {
namespace {

using Clock = std::chrono::steady_clock;

int device_count() {
  return 1;
}

// What a Hopper GPU says of itself, so that all that depends on it is chosen as there.
GpuInfo device_info(int) {
  return {.name = "emulated GPU",
          .uuid = std::to_string(::getpid()),  // every process has one of its own
          .total_bytes = kGpuBytes,
          .multiprocessors = 132,
          .major = 9,
          .minor = 0};
}

std::string versions() {
  return "emulated on this CPU";
}

CudaServices services() {
  return {.device_count = device_count,
          .device_info = device_info,
          .set_device = [](int) {},
          .current_stream = []() -> void* { return current_stream(); },
          .synchronize =
              [] {
                refuse_while_recording("a wait for the GPU");
                do_all();
              },
          .memory = [](int) { return memory_figures(); },
          .reset_peak_memory = [](int) { reset_peak(); },
          .versions = versions,
          .record_event = []() -> void* {
            return recorder() ? nullptr : new Clock::time_point(Clock::now());
          },
          .seconds_between =
              [](void* from, void* to) {
                return std::chrono::duration<double>(*static_cast<Clock::time_point*>(to) -
                                                     *static_cast<Clock::time_point*>(from))
                    .count();
              },
          .release_event = [](void* event) { delete static_cast<Clock::time_point*>(event); },
          .recorder = &make_recorder,
          .forbid_host_waits = &forbid_host_waits};
}

const kernels::CudaKernels& all_kernels() {
  static const kernels::CudaKernels table = [] {
    kernels::CudaKernels all = kernels::cuda_kernels();
    all.packed_attention_plan = &plan_packed_attention;
    all.packed_attention = &packed_attention;
    all.product_algorithms = &kernels::list_product_algorithms;
    all.product = &kernels::launch_product;
    all.product_library = &kernels::product_library;
    return all;
  }();
  return table;
}

}  // namespace
}  // namespace wmtp::emulated

extern "C" bool wmtp_cuda_plugin(unsigned abi, wmtp::CudaTables* tables) {
  if (abi != wmtp::kCudaPluginAbi) return false;
  tables->services = wmtp::emulated::services();
  tables->kernels = &wmtp::emulated::all_kernels();
  tables->nccl_factory = &wmtp::emulated::make_communicator;
  return true;
}
