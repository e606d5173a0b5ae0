// The memory a rank uses, as its run reports it.
#pragma once
#include <c10/core/Device.h>

#include "wmtp/training/objective.h"

namespace wmtp::run {

// In GiB: the most a GPU has allocated since the last report, or the process's resident memory.
double peak_memory_gib(c10::Device device);
// `system/*_gb` for a report, the same names on every rank: of the host, and of the device, NaN
// where that is no GPU.
training::Metrics report_memory(c10::Device device);

}  // namespace wmtp::run
