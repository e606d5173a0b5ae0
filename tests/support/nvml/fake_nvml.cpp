// A libnvidia-ml.so for tests, with one GPU: built whole, as an old driver has it (FAKE_NVML_OLD:
// none of the newer names) and with little in it (FAKE_NVML_BARE). What it answers is set through
// fake_nvml(), driver and compute capability also through FAKE_NVML_DRIVER and
// FAKE_NVML_CAPABILITY (75).
#include "support/nvml/fake_nvml.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "wmtp/tracking/system/nvml.h"

namespace {

using wmtp::test::FakeNvml;
using namespace wmtp::tracking;

FakeNvml state;

NvmlStatus answer() {
  ++state.num_calls;
  if (state.calls_until_lost > 0 && --state.calls_until_lost == 0) state.status = kNvmlGpuLost;
  return static_cast<NvmlStatus>(state.status);
}

template <class Number>
NvmlStatus answer(Number* out, Number value) {
  const NvmlStatus status = answer();
  if (status == kNvmlSuccess) *out = value;
  return status;
}

// What a test of the whole program says through its environment, else `otherwise`.
const char* asked(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value ? value : otherwise;
}

}  // namespace

extern "C" {

wmtp::test::FakeNvml* fake_nvml() {
  return &state;
}

#if defined(FAKE_NVML_OLD)
NvmlStatus nvmlInit() {
#else
NvmlStatus nvmlInit_v2() {
#endif
  ++state.num_inits;
  return static_cast<NvmlStatus>(state.init_status);
}
NvmlStatus nvmlShutdown() {
  ++state.num_shutdowns;
  return kNvmlSuccess;
}
NvmlStatus nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "%s", asked("FAKE_NVML_DRIVER", state.driver));
  return kNvmlSuccess;
}
NvmlStatus nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device) {
  if (std::strcmp(uuid, state.uuid) != 0) return static_cast<NvmlStatus>(6);  // not found
  *device = reinterpret_cast<NvmlDevice>(&state);
  return kNvmlSuccess;
}
NvmlStatus nvmlDeviceGetUtilizationRates(NvmlDevice, NvmlUtilization* rates) {
  return answer(rates, {83, 40});
}

#if !defined(FAKE_NVML_BARE)
NvmlStatus nvmlDeviceGetName(NvmlDevice, char* name, unsigned length) {
  std::snprintf(name, length, "Fake GPU\x1b[2J");
  return answer();
}
NvmlStatus nvmlDeviceGetCudaComputeCapability(NvmlDevice, int* major, int* minor) {
  const int told = std::atoi(asked("FAKE_NVML_CAPABILITY", "0"));
  *major = told > 0 ? told / 10 : state.major;
  *minor = told > 0 ? told % 10 : state.minor;
  return answer();
}
#if defined(FAKE_NVML_OLD)
NvmlStatus nvmlDeviceGetCount(unsigned* count) {
#else
NvmlStatus nvmlDeviceGetCount_v2(unsigned* count) {
#endif
  return answer(count, 1u);
}
#if defined(FAKE_NVML_OLD)
NvmlStatus nvmlDeviceGetHandleByIndex(unsigned, NvmlDevice* device) {
#else
NvmlStatus nvmlDeviceGetHandleByIndex_v2(unsigned, NvmlDevice* device) {
#endif
  return answer(device, reinterpret_cast<NvmlDevice>(&state));
}
const char* nvmlErrorString(NvmlStatus status) {
  return status == kNvmlGpuLost ? "GPU is lost\x1b[2J" : "some error";
}
NvmlStatus nvmlDeviceGetMemoryInfo(NvmlDevice, NvmlMemory* memory) {
  return answer(memory, {80'000'000'000, 59'000'000'000, 21'000'000'000});
}
NvmlStatus nvmlDeviceGetPowerUsage(NvmlDevice, unsigned* milliwatts) {
  return answer(milliwatts, 350'500u);
}
NvmlStatus nvmlDeviceGetEnforcedPowerLimit(NvmlDevice, unsigned* milliwatts) {
  return answer(milliwatts, 701'000u);
}
NvmlStatus nvmlDeviceGetClockInfo(NvmlDevice, NvmlClock kind, unsigned* megahertz) {
  return answer(megahertz, kind == 1 ? 1980u : kind == 2 ? 3201u : 0u);
}
NvmlStatus nvmlDeviceGetTemperature(NvmlDevice, int sensor, unsigned* celsius) {
  return answer(celsius, sensor == 0 ? 61u : 0u);
}
NvmlStatus nvmlDeviceGetTotalEccErrors(NvmlDevice, int kind, int since, unsigned long long* count) {
  return answer(count, kind == 1 && since == 0 ? state.ecc : 0);
}
#if defined(FAKE_NVML_OLD)
NvmlStatus nvmlDeviceGetCurrentClocksThrottleReasons(NvmlDevice, unsigned long long* reasons) {
#else
NvmlStatus nvmlDeviceGetMemoryInfo_v2(NvmlDevice, NvmlMemoryV2* memory) {
  constexpr unsigned kVersion = 40 | 2 << 24;  // what the real one takes: the size and a number
  if (memory->version != kVersion) return static_cast<NvmlStatus>(25);
  return answer(memory, {kVersion, 80'000'000'000, 1'000'000'000, 59'000'000'000, 20'000'000'000});
}
NvmlStatus nvmlDeviceGetCurrentClocksEventReasons(NvmlDevice, unsigned long long* reasons) {
#endif
  return answer(reasons, state.reasons);
}
#endif

}  // extern "C"
