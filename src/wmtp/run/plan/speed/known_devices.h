// The table behind device_model.h.
#pragma once
#include <vector>

#include "wmtp/run/plan/speed/device_model.h"

namespace wmtp::run {

const std::vector<DeviceModel>& known_devices();  // cpu first, then h200

}  // namespace wmtp::run
