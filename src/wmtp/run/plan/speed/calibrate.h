// The rates of this machine's CPU, measured with the kernels that a step runs.
#pragma once
#include "wmtp/run/plan/speed/device_model.h"

namespace wmtp::run {

// `threads`: of a rank, which the measurement computes with. BLOCKS for about `seconds`. Sets the
// calling process's number of threads and restores it.
DeviceModel calibrate_cpu(int threads, double seconds = 2.0);

}  // namespace wmtp::run
