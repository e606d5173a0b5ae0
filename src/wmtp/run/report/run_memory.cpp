#include "wmtp/run/report/run_memory.h"

#include <limits>

#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::run {
namespace {

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

}  // namespace

double peak_memory_gib(c10::Device device) {
  return gib(device.is_cuda() ? cuda_tables().services.memory(device.index()).peak_allocated_bytes
                              : peak_resident_bytes());
}

training::Metrics report_memory(c10::Device device) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  training::Metrics found{{"system/host_memory_gb", gib(peak_resident_bytes())},
                          {"system/gpu_memory_allocated_gb", kNone},
                          {"system/gpu_memory_reserved_gb", kNone},
                          {"system/gpu_memory_peak_gb", kNone}};
  if (!device.is_cuda()) return found;
  const GpuMemory memory = cuda_tables().services.memory(device.index());
  found[1].second = gib(memory.allocated_bytes);
  found[2].second = gib(memory.reserved_bytes);
  found[3].second = gib(memory.peak_allocated_bytes);
  cuda_tables().services.reset_peak_memory(device.index());
  return found;
}

}  // namespace wmtp::run
