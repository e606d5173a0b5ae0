// How a GPU is just now, asked once through NVML; for `wmtp doctor`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/tracking/system/nvml.h"

namespace wmtp::tracking {

// Absent: the library, the driver or the GPU does not tell.
struct GpuHealth {
  std::optional<unsigned> temperature_c;
  std::optional<unsigned long long> uncorrected_ecc;  // errors since the driver was loaded
  std::vector<std::string> slowdowns;                 // "thermal", "power cap", "hw slowdown"
  bool needs_reset = false;                           // lost, or it asks for a reset
  std::string problem;                                // why nothing is known; empty: something is
};

// `uuid` as GpuReader takes it. BLOCKS on the driver.
GpuHealth read_gpu_health(const std::string& uuid, const std::string& library = kNvmlLibrary);

}  // namespace wmtp::tracking
