#include "wmtp/tracking/system/gpu_reader.h"

#include <fmt/format.h>

#include <utility>

#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"

namespace wmtp::tracking {
namespace {

constexpr auto kRetellAfter = std::chrono::minutes(10);

}  // namespace

std::string SlowdownNews::told(unsigned long long reasons, Clock::time_point now) {
  std::string names;
  for (std::size_t i = 0; i < kNumReasons; ++i) {
    const NvmlSlowdown& reason = kNvmlSlowdowns[i];
    const bool begins = (reasons & reason.bits) != 0 && (before_ & reason.bits) == 0;
    if (!begins || (last_told_[i] && now - *last_told_[i] < kRetellAfter)) continue;
    last_told_[i] = now;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", reason.name);
  }
  before_ = reasons;
  return names;
}

GpuReader::GpuReader(std::string uuid, std::string library)
    : uuid_(std::move(uuid)), library_(std::move(library)) {}

GpuReader::~GpuReader() {
  if (initialised_ && api_.shutdown) api_.shutdown();
}

void GpuReader::warn_once(const std::string& problem) {
  if (!std::exchange(warned_, true))
    log::warn("system", "numbers of the GPU are left out: {}", problem);
}

bool GpuReader::succeeded(NvmlStatus status) {
  if (status == kNvmlSuccess) return true;
  if (status == kNvmlNotSupported) return false;
  lost_ = status == kNvmlGpuLost || status == kNvmlResetRequired;
  const char* text = api_.error_string ? api_.error_string(status) : nullptr;
  warn_once(
      fmt::format("NVML says \"{}\" ({})", printable(text ? text : ""), static_cast<int>(status)));
  return false;
}

void GpuReader::open() {
  const OpenedNvml opened = open_nvml(library_);
  api_ = opened.api;
  if (!opened.problem.empty()) return warn_once(opened.problem);
  initialised_ = call(api_.init);
  if (!initialised_) return warn_once("NVML cannot be initialised");
  // A part of a GPU (MIG) has a name of its own; asking under the wrong kind is no failure.
  for (const char* kind : {"GPU", "MIG"})
    if (!device_ && api_.device_by_uuid(nvml_uuid(uuid_, kind).c_str(), &device_) != kNvmlSuccess)
      device_ = nullptr;
  if (!device_) warn_once(fmt::format("NVML knows no GPU {}", printable(uuid_)));
}

void GpuReader::read(SystemReading& reading) {
  if (!std::exchange(tried_, true)) open();
  if (!device_) return;
  NvmlUtilization utilization;
  if (call(api_.utilization, device_, &utilization))
    reading[SystemValue::gpu_percent] = utilization.gpu;
  read_memory(reading);
  read_power(reading);
  unsigned number = 0;
  if (call(api_.clock_mhz, device_, kNvmlSmClock, &number))
    reading[SystemValue::gpu_sm_clock_mhz] = number;
  if (call(api_.clock_mhz, device_, kNvmlMemoryClock, &number))
    reading[SystemValue::gpu_memory_clock_mhz] = number;
  if (call(api_.temperature_c, device_, kNvmlGpuTemperature, &number))
    reading[SystemValue::gpu_temperature_c] = number;
  read_slowdown(reading);
}

void GpuReader::read_memory(SystemReading& reading) {
  NvmlMemoryV2 memory{.version = kNvmlMemoryVersion};
  NvmlMemory old;
  double used = 0, total = 0;
  if (call(api_.memory_v2, device_, &memory)) {
    used = static_cast<double>(memory.used);
    total = static_cast<double>(memory.total);
  } else if (call(api_.memory, device_, &old)) {
    used = static_cast<double>(old.used);
    total = static_cast<double>(old.total);
  } else {
    return;
  }
  reading[SystemValue::gpu_memory_mb] = used / 1e6;
  if (total > 0) reading[SystemValue::gpu_memory_percent] = 100 * used / total;
}

void GpuReader::read_power(SystemReading& reading) {
  unsigned power_mw = 0, limit_mw = 0;
  if (!call(api_.power_mw, device_, &power_mw)) return;
  reading[SystemValue::gpu_power_w] = power_mw / 1e3;
  if (call(api_.power_limit_mw, device_, &limit_mw) && limit_mw > 0)
    reading[SystemValue::gpu_power_percent] = 100.0 * power_mw / limit_mw;
}

void GpuReader::read_slowdown(SystemReading& reading) {
  unsigned long long reasons = 0, known = 0;
  if (!call(api_.slowdown_reasons, device_, &reasons)) return;
  for (const NvmlSlowdown& reason : kNvmlSlowdowns) known |= reason.bits;
  reading[SystemValue::gpu_throttled] = (reasons & known) != 0 ? 1 : 0;
  const std::string began = news_.told(reasons, Clock::now());
  if (began.empty()) return;
  // At full load many GPUs run at their power cap; the others are faults of the machine.
  const bool usual = (reasons & known) == kNvmlPowerCap;
  log::write(usual ? log::Level::info : log::Level::warn, "system",
             fmt::format("the GPU is throttled: {}", began));
}

}  // namespace wmtp::tracking
