// What Kineto, the profiler of LibTorch, has to say.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::cli {

// Without a GPU Kineto tells on stderr, as an error, that it found none: nothing of it is shown
// there, unless KINETO_LOG_LEVEL is set already. REQUIRES: before the first profile of the process,
// while it has one thread.
void quiet_kineto(c10::Device device);

}  // namespace wmtp::cli
