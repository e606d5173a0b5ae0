// The GPU that a run computes on, as far as it is known: what kernels ask the compute capability
// of.
#pragma once
#include <optional>

#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::run {

// `named` in the place of the one here (RunContext::named_gpu); nothing where neither is known.
inline std::optional<GpuInfo> run_gpu(c10::Device device, const std::optional<GpuInfo>& named) {
  if (named || !cuda_loaded()) return named;
  return cuda_tables().services.device_info(device.has_index() ? device.index() : 0);
}

}  // namespace wmtp::run
