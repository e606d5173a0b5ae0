// CUDA graphs of a rank's own work (CudaServices::recorder).
#pragma once
#include <memory>

#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cuda_plugin {

std::unique_ptr<PieceRecorder> make_recorder();

}  // namespace wmtp::cuda_plugin
