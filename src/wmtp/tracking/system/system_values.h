// What a rank tells of its machine: the values, their order and their names. All ranks have the
// same ones, whatever their hardware; what a rank cannot tell is absent.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace wmtp::tracking {

// MB are 10^6 bytes, as MLflow counts them.
enum class SystemValue : std::size_t {
  cpu_percent,          // of the cores this process may use, by all processes
  process_cpu_percent,  // of the same cores, by this process
  memory_mb,            // of the cgroup that has the least, else of the machine
  memory_percent,
  process_memory_mb,  // resident
  disk_used_mb,       // of the file system that the run folder is on
  disk_used_percent,
  disk_available_mb,
  network_received_mb,  // since the run began, all interfaces but lo
  network_sent_mb,
  process_read_mb,  // from storage, since the process began
  process_written_mb,
  gpu_percent,  // the first of those that a rank without a GPU cannot tell
  gpu_memory_mb,
  gpu_memory_percent,
  gpu_power_w,
  gpu_power_percent,  // of the limit in force
  gpu_sm_clock_mhz,
  gpu_memory_clock_mhz,
  gpu_temperature_c,
  gpu_throttled,  // 1: something slows it down
};
inline constexpr std::size_t kNumSystemValues = 21;
inline constexpr std::size_t kFirstGpuValue = static_cast<std::size_t>(SystemValue::gpu_percent);

inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
inline bool is_absent(double value) {
  return std::isnan(value);
}

class SystemReading {
 public:
  SystemReading() { values_.fill(kAbsent); }
  double& operator[](SystemValue value) { return values_[static_cast<std::size_t>(value)]; }
  double operator[](SystemValue value) const { return values_[static_cast<std::size_t>(value)]; }

 private:
  std::array<double, kNumSystemValues> values_;
};

// "system/cpu_utilization_percentage", "system/gpu_power_usage_watts": MLflow's names where it has
// one.
std::string system_metric(SystemValue value);
// "system/gpu_3_power_usage_watts". REQUIRES a value of a GPU.
std::string gpu_metric(SystemValue value, int rank);

}  // namespace wmtp::tracking
