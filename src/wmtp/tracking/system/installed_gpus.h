// Which GPUs and which driver a machine has, asked once through NVML, which needs neither CUDA nor
// a driver that CUDA takes; for `wmtp doctor`.
#pragma once
#include <string>
#include <vector>

#include "wmtp/tracking/system/nvml.h"

namespace wmtp::tracking {

struct InstalledGpu {
  std::string name;          // as the driver says it: printed through printable()
  int major = 0, minor = 0;  // compute capability
};

struct InstalledGpus {
  std::string driver;              // "580.65.06"; empty: not told
  std::vector<InstalledGpu> gpus;  // those that tell their compute capability
};

// Empty where there is no library, no driver or no answer. BLOCKS on the driver.
InstalledGpus read_installed_gpus(const std::string& library = kNvmlLibrary);

}  // namespace wmtp::tracking
