#include "wmtp/tracking/system/system_values.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::tracking {
namespace {

// In the order of SystemValue; those of a GPU without "gpu_".
constexpr std::array<std::string_view, kNumSystemValues> kSystemNames = {
    "cpu_utilization_percentage",
    "process_cpu_utilization_percentage",
    "system_memory_usage_megabytes",
    "system_memory_usage_percentage",
    "process_memory_usage_megabytes",
    "disk_usage_megabytes",
    "disk_usage_percentage",
    "disk_available_megabytes",
    "network_receive_megabytes",
    "network_transmit_megabytes",
    "process_disk_read_megabytes",
    "process_disk_write_megabytes",
    "utilization_percentage",
    "memory_usage_megabytes",
    "memory_usage_percentage",
    "power_usage_watts",
    "power_usage_percentage",
    "sm_clock_megahertz",
    "memory_clock_megahertz",
    "temperature_celsius",
    "throttled"};
static_assert(static_cast<std::size_t>(SystemValue::gpu_throttled) + 1 == kNumSystemValues);
static_assert(!kSystemNames.back().empty());

}  // namespace

std::string system_metric(SystemValue value) {
  const auto place = static_cast<std::size_t>(value);
  return fmt::format("system/{}{}", place < kFirstGpuValue ? "" : "gpu_", kSystemNames.at(place));
}

std::string gpu_metric(SystemValue value, int rank) {
  const auto place = static_cast<std::size_t>(value);
  WMTP_CHECK(place >= kFirstGpuValue, "only values of a GPU have names by rank");
  return fmt::format("system/gpu_{}_{}", rank, kSystemNames.at(place));
}

}  // namespace wmtp::tracking
