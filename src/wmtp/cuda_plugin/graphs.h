// CUDA graphs of a rank's own work (CudaServices::record).
#pragma once
#include <functional>
#include <memory>

#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cuda_plugin {

std::unique_ptr<RecordedWork> record(const std::function<void()>& work);

}  // namespace wmtp::cuda_plugin
