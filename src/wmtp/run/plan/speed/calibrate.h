// The rates of this machine's CPU, measured with the kernels that a step runs.
#pragma once
#include "wmtp/run/plan/speed/device_model.h"

namespace wmtp::run {

inline constexpr double kCalibrationS = 2;

// `threads`: of a rank. `ranks`: on this machine, computing at the same time; the measurement does
// as they will. BLOCKS for about `seconds`, longer on a machine that is slow or busy. Sets the
// number of threads of the process and restores it.
DeviceModel calibrate_cpu(int threads, double seconds = kCalibrationS, int ranks = 1);

}  // namespace wmtp::run
