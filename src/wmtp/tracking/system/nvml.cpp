#include "wmtp/tracking/system/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <initializer_list>

#include "wmtp/core/printable.h"

namespace wmtp::tracking {
namespace {

// The first of `names`, newest first, that the library has.
template <class Function>
void bind_nvml(void* library, Function& function, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!function) function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

OpenedNvml open_nvml(const std::string& library) {
  OpenedNvml opened;
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = ::dlerror();
    opened.problem = fmt::format("cannot open NVML: {}", printable(why ? why : "unknown reason"));
    return opened;
  }
  NvmlApi& api = opened.api;
  bind_nvml(handle, api.init, {"nvmlInit_v2", "nvmlInit"});
  bind_nvml(handle, api.shutdown, {"nvmlShutdown"});
  bind_nvml(handle, api.error_string, {"nvmlErrorString"});
  bind_nvml(handle, api.driver_version, {"nvmlSystemGetDriverVersion"});
  bind_nvml(handle, api.device_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  bind_nvml(handle, api.device_by_index,
            {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  bind_nvml(handle, api.device_by_uuid, {"nvmlDeviceGetHandleByUUID"});
  bind_nvml(handle, api.name, {"nvmlDeviceGetName"});
  bind_nvml(handle, api.compute_capability, {"nvmlDeviceGetCudaComputeCapability"});
  bind_nvml(handle, api.memory, {"nvmlDeviceGetMemoryInfo"});
  bind_nvml(handle, api.memory_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  bind_nvml(handle, api.utilization, {"nvmlDeviceGetUtilizationRates"});
  bind_nvml(handle, api.power_mw, {"nvmlDeviceGetPowerUsage"});
  bind_nvml(handle, api.power_limit_mw, {"nvmlDeviceGetEnforcedPowerLimit"});
  bind_nvml(handle, api.clock_mhz, {"nvmlDeviceGetClockInfo"});
  bind_nvml(handle, api.temperature_c, {"nvmlDeviceGetTemperature"});
  bind_nvml(
      handle, api.slowdown_reasons,
      {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  bind_nvml(handle, api.ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  if (!api.init || !api.device_by_uuid)
    opened.problem =
        fmt::format("{} has no nvmlInit or no nvmlDeviceGetHandleByUUID", printable(library));
  return opened;
}

std::string nvml_uuid(const std::string& uuid, const std::string& kind) {
  if (uuid.size() != 32 || uuid.find_first_not_of("0123456789abcdef") != uuid.npos) return uuid;
  return fmt::format("{}-{}-{}-{}-{}-{}", kind, uuid.substr(0, 8), uuid.substr(8, 4),
                     uuid.substr(12, 4), uuid.substr(16, 4), uuid.substr(20));
}

}  // namespace wmtp::tracking
