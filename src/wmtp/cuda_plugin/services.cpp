#include "wmtp/cuda_plugin/services.h"
#include "wmtp/cuda_plugin/events.h"
#include "wmtp/cuda_plugin/graphs.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

namespace wmtp::cuda_plugin {
namespace {

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

int device_count() {
  return c10::cuda::device_count();
}

GpuInfo device_info(int index) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  std::string uuid;
  for (char byte : properties.uuid.bytes)
    uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return {.name = properties.name,
          .uuid = uuid,
          .total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
          .multiprocessors = properties.multiProcessorCount,
          .major = properties.major,
          .minor = properties.minor};
}

void set_device(int index) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
}
void* current_stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}
void synchronize() {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
}

GpuMemory memory(int index) {
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
  std::size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {.allocated_bytes = stats.allocated_bytes[kAll].current,
          .reserved_bytes = stats.reserved_bytes[kAll].current,
          .peak_allocated_bytes = stats.allocated_bytes[kAll].peak,
          .peak_reserved_bytes = stats.reserved_bytes[kAll].peak,
          .free_bytes = static_cast<std::int64_t>(free)};
}

void reset_peak_memory(int index) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(index));
}

void forbid_host_waits(bool forbidden) {
  c10::cuda::warning_state().set_sync_debug_mode(forbidden ? c10::cuda::SyncDebugMode::L_ERROR
                                                           : c10::cuda::SyncDebugMode::L_DISABLED);
}

std::string versions() {
  int driver = 0, runtime = 0, nccl = 0;
  C10_CUDA_CHECK(cudaDriverGetVersion(&driver));
  C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  ncclGetVersion(&nccl);
  return fmt::format("driver for CUDA {}.{}, CUDA runtime {}.{}, NCCL {}.{}.{}", driver / 1000,
                     driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, nccl / 10000,
                     nccl / 100 % 100, nccl % 100);
}

}  // namespace

CudaServices services() {
  return {.device_count = device_count,
          .device_info = device_info,
          .set_device = set_device,
          .current_stream = current_stream,
          .synchronize = synchronize,
          .memory = memory,
          .reset_peak_memory = reset_peak_memory,
          .versions = versions,
          .record_event = record_event,
          .seconds_between = seconds_between,
          .release_event = release_event,
          .recorder = make_recorder,
          .forbid_host_waits = forbid_host_waits};
}

}  // namespace wmtp::cuda_plugin
