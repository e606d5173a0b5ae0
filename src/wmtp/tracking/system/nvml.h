// NVML, the library of the NVIDIA driver that tells how a GPU is doing, opened with dlopen:
// programs and machines without it lose these values and nothing else. The declarations are ours,
// after NVML's documentation; only the functions that are used.
#pragma once
#include <array>
#include <string>

namespace wmtp::tracking {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

struct NvmlDeviceState;
using NvmlDevice = NvmlDeviceState*;  // the driver's

enum NvmlStatus : int {
  kNvmlSuccess = 0,
  kNvmlNotSupported = 3,  // what nvidia-smi shows as N/A
  kNvmlGpuLost = 15,
  kNvmlResetRequired = 16,
};
enum NvmlClock : int { kNvmlSmClock = 1, kNvmlMemoryClock = 2 };
inline constexpr int kNvmlGpuTemperature = 0;

struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct NvmlMemoryV2 {  // what the driver keeps for itself is not `used`, as in nvidia-smi
  unsigned version = 0;
  unsigned long long total = 0, reserved = 0, free = 0, used = 0;
};
inline constexpr unsigned kNvmlMemoryVersion = sizeof(NvmlMemoryV2) | 2u << 24;
struct NvmlUtilization {
  unsigned gpu = 0, memory = 0;  // percent of the last moments
};

// Bits of what slows the clocks down.
inline constexpr unsigned long long kNvmlPowerCap = 0x4, kNvmlHwSlowdown = 0x8,
                                    kNvmlSwThermal = 0x20, kNvmlHwThermal = 0x40,
                                    kNvmlPowerBrake = 0x80;
struct NvmlSlowdown {
  unsigned long long bits;
  const char* name;  // as people are told
};
inline constexpr std::array<NvmlSlowdown, 3> kNvmlSlowdowns{
    {{kNvmlSwThermal | kNvmlHwThermal, "thermal"},
     {kNvmlPowerCap, "power cap"},
     {kNvmlHwSlowdown | kNvmlPowerBrake, "hw slowdown"}}};

inline constexpr int kNvmlUncorrected = 1, kNvmlSinceDriverLoad = 0;  // of errors in memory

// Null where the library has the function under none of its names.
struct NvmlApi {
  NvmlStatus (*init)() = nullptr;
  NvmlStatus (*shutdown)() = nullptr;
  const char* (*error_string)(NvmlStatus) = nullptr;
  NvmlStatus (*driver_version)(char*, unsigned length) = nullptr;
  NvmlStatus (*device_count)(unsigned*) = nullptr;
  NvmlStatus (*device_by_index)(unsigned, NvmlDevice*) = nullptr;
  NvmlStatus (*device_by_uuid)(const char*, NvmlDevice*) = nullptr;
  NvmlStatus (*name)(NvmlDevice, char*, unsigned length) = nullptr;
  NvmlStatus (*compute_capability)(NvmlDevice, int* major, int* minor) = nullptr;
  NvmlStatus (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  NvmlStatus (*memory_v2)(NvmlDevice, NvmlMemoryV2*) = nullptr;
  NvmlStatus (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  NvmlStatus (*power_mw)(NvmlDevice, unsigned*) = nullptr;
  NvmlStatus (*power_limit_mw)(NvmlDevice, unsigned*) = nullptr;
  NvmlStatus (*clock_mhz)(NvmlDevice, NvmlClock, unsigned*) = nullptr;
  NvmlStatus (*temperature_c)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlStatus (*slowdown_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  NvmlStatus (*ecc_errors)(NvmlDevice, int kind, int since, unsigned long long*) = nullptr;
};

struct OpenedNvml {
  NvmlApi api;
  std::string problem;  // empty: the library is open, and init and device_by_uuid are there
};
// The library stays open for the life of the process. BLOCKS on the disk.
OpenedNvml open_nvml(const std::string& library);

// "GPU-1f2e..." (or another kind) of the 32 hexadecimal digits that CUDA gives; other texts as they
// are.
std::string nvml_uuid(const std::string& uuid, const std::string& kind);

}  // namespace wmtp::tracking
