#include "wmtp/tracking/system/installed_gpus.h"

#include <array>

namespace wmtp::tracking {
namespace {

using NvmlText = std::array<char, 128>;  // longer than any that NVML writes

std::string text_in(NvmlText& buffer) {
  buffer.back() = '\0';
  return buffer.data();
}

void read_gpus(const NvmlApi& api, InstalledGpus& installed) {
  unsigned count = 0;
  if (!api.device_count || !api.device_by_index || !api.compute_capability) return;
  if (api.device_count(&count) != kNvmlSuccess) return;
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    InstalledGpu gpu;
    if (api.device_by_index(index, &device) != kNvmlSuccess ||
        api.compute_capability(device, &gpu.major, &gpu.minor) != kNvmlSuccess)
      continue;
    NvmlText name{};
    if (api.name && api.name(device, name.data(), name.size()) == kNvmlSuccess)
      gpu.name = text_in(name);
    installed.gpus.push_back(std::move(gpu));
  }
}

}  // namespace

InstalledGpus read_installed_gpus(const std::string& library) {
  InstalledGpus installed;
  const OpenedNvml opened = open_nvml(library);
  if (!opened.problem.empty() || opened.api.init() != kNvmlSuccess) return installed;
  NvmlText driver{};
  if (opened.api.driver_version &&
      opened.api.driver_version(driver.data(), driver.size()) == kNvmlSuccess)
    installed.driver = text_in(driver);
  read_gpus(opened.api, installed);
  if (opened.api.shutdown) opened.api.shutdown();
  return installed;
}

}  // namespace wmtp::tracking
