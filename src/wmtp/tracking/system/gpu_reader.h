// Readings of one GPU through NVML. What the library, the driver or the GPU does not tell is
// absent; a run never fails for it, and hears of it once.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "wmtp/core/time.h"
#include "wmtp/tracking/system/nvml.h"
#include "wmtp/tracking/system/system_values.h"

namespace wmtp::tracking {

// What to tell of the reasons that slow a GPU down: each when it begins, but not again within ten
// minutes, for a GPU at its power cap may pass it many times a second.
class SlowdownNews {
 public:
  // The names of those that began, "thermal, power cap"; empty: nothing to tell.
  std::string told(unsigned long long reasons, Clock::time_point now);

 private:
  static constexpr std::size_t kNumReasons = kNvmlSlowdowns.size();
  unsigned long long before_ = 0;
  std::array<std::optional<Clock::time_point>, kNumReasons> last_told_;
};

class GpuReader {
 public:
  // `uuid`: as CUDA gives it (32 hexadecimal digits) or as nvidia-smi does. Nothing is opened yet.
  explicit GpuReader(std::string uuid, std::string library = kNvmlLibrary);
  ~GpuReader();
  GpuReader(const GpuReader&) = delete;
  GpuReader& operator=(const GpuReader&) = delete;

  // Opens the library the first time. BLOCKS on the driver.
  void read(SystemReading& reading);

 private:
  void open();
  void read_memory(SystemReading& reading);
  void read_power(SystemReading& reading);
  void read_slowdown(SystemReading& reading);
  // Whether the library has the function and it succeeded; what else came of it is noted.
  template <class Function, class... Args>
  bool call(Function function, Args... args) {
    return !lost_ && function && succeeded(function(args...));
  }
  bool succeeded(NvmlStatus status);
  void warn_once(const std::string& problem);

  std::string uuid_, library_;
  NvmlApi api_;
  bool tried_ = false, initialised_ = false, warned_ = false;
  bool lost_ = false;  // a GPU does not come back while the process lives
  NvmlDevice device_ = nullptr;
  SlowdownNews news_;
};

}  // namespace wmtp::tracking
