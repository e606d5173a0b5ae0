#include "wmtp/run/plan/speed/device_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/suggest.h"
#include "wmtp/run/plan/speed/known_devices.h"

namespace wmtp::run {
namespace {

// "a100-80" and "a100-40" are told apart by what a driver puts into the name.
struct DriverName {
  std::string_view contains, and_contains, device;
};
constexpr DriverName kDriverNames[] = {
    {"H200", "", "h200"},        {"H100", "", "h100"}, {"A100", "40GB", "a100-40"},
    {"A100", "", "a100-80"},     {"B200", "", "b200"}, {"L40S", "", "l40s"},
    {"RTX 4090", "", "rtx4090"},
};

}  // namespace

GpuInfo DeviceModel::gpu() const {
  WMTP_CHECK(!is_cpu(), "a CPU has no compute capability");
  GpuInfo info;
  info.name = title;
  info.total_bytes = static_cast<std::int64_t>(memory_bytes);
  info.major = major, info.minor = minor;
  return info;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const DeviceModel& device : known_devices()) names.push_back(device.name);
  return names;
}

const DeviceModel& device_model(std::string_view name) {
  const auto found = std::ranges::find(known_devices(), name, &DeviceModel::name);
  if (found != known_devices().end()) return *found;
  const auto names = device_names();
  const auto guess = nearest(name, names);
  throw Error(ErrorKind::config, "plan", fmt::format("there is no device \"{}\"", name),
              guess ? fmt::format("did you mean {}?", *guess)
                    : fmt::format("known are {}", fmt::join(names, ", ")));
}

const DeviceModel* find_device(std::string_view driver_name) {
  for (const DriverName& row : kDriverNames)
    if (driver_name.find(row.contains) != driver_name.npos &&
        driver_name.find(row.and_contains) != driver_name.npos)
      return &device_model(row.device);
  return nullptr;
}

}  // namespace wmtp::run
