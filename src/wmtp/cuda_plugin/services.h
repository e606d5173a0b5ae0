// The plugin's own part of the tables: devices, streams, memory.
#pragma once
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cuda_plugin {

CudaServices services();

}  // namespace wmtp::cuda_plugin
