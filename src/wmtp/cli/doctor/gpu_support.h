// Which GPUs, drivers and CUDA versions the GPU plugin supports (cmake/GpuTargets.cmake), and
// whether those of this machine are among them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "wmtp/cli/doctor/check.h"
#include "wmtp/tracking/system/installed_gpus.h"

namespace wmtp::cli {

// "compute capability 8.0 and above (machine code sm_80, sm_90; PTX compute_90 for newer), CUDA
// 13.0, driver 580 or newer".
std::string supported_gpus_text();
nlohmann::ordered_json supported_gpus_json();

// Fail for a driver or a GPU that is too old; a warning only where the CPU is asked for. With no
// GPU and no driver ok: then it says what would do.
Check check_gpu_support(const tracking::InstalledGpus& installed, bool wants_cpu);

}  // namespace wmtp::cli
