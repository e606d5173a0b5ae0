#include "wmtp/tracking/system/gpu_health.h"

#include <fmt/format.h>

#include "wmtp/core/printable.h"

namespace wmtp::tracking {
namespace {

// Asks one GPU and remembers whether it has fallen off the bus.
struct HealthReader {
  const NvmlApi& api;
  NvmlDevice device = nullptr;
  GpuHealth health = {};

  template <class Number, class Function, class... Args>
  std::optional<Number> ask(Function function, Args... args) {
    Number value{};
    if (!function || health.needs_reset) return std::nullopt;
    const NvmlStatus status = function(device, args..., &value);
    health.needs_reset = status == kNvmlGpuLost || status == kNvmlResetRequired;
    return status == kNvmlSuccess ? std::optional(value) : std::nullopt;
  }

  void read() {
    health.temperature_c = ask<unsigned>(api.temperature_c, kNvmlGpuTemperature);
    health.uncorrected_ecc =
        ask<unsigned long long>(api.ecc_errors, kNvmlUncorrected, kNvmlSinceDriverLoad);
    const auto reasons = ask<unsigned long long>(api.slowdown_reasons).value_or(0);
    for (const NvmlSlowdown& reason : kNvmlSlowdowns)
      if ((reasons & reason.bits) != 0) health.slowdowns.push_back(reason.name);
  }
};

}  // namespace

GpuHealth read_gpu_health(const std::string& uuid, const std::string& library) {
  const OpenedNvml opened = open_nvml(library);
  HealthReader reader{opened.api};
  reader.health.problem = opened.problem;
  if (!opened.problem.empty()) return reader.health;
  if (opened.api.init() != kNvmlSuccess) {
    reader.health.problem = "NVML cannot be initialised";
    return reader.health;
  }
  for (const char* kind : {"GPU", "MIG"})
    if (!reader.device) {
      const NvmlStatus status =
          opened.api.device_by_uuid(nvml_uuid(uuid, kind).c_str(), &reader.device);
      if (status != kNvmlSuccess) reader.device = nullptr;
      reader.health.needs_reset |= status == kNvmlGpuLost || status == kNvmlResetRequired;
    }
  if (reader.device)
    reader.read();
  else
    reader.health.problem = fmt::format("NVML knows no GPU {}", printable(uuid));
  if (opened.api.shutdown) opened.api.shutdown();
  return reader.health;
}

}  // namespace wmtp::tracking
