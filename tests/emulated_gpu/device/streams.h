// The calling thread's current stream of the emulated GPU.
#pragma once
#include "emulated_gpu/kernels/runtime/streams.h"

namespace wmtp::emulated {

cudaStream_t current_stream();

}  // namespace wmtp::emulated
