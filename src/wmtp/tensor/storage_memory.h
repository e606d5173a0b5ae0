// Memory that goes and comes back while everybody keeps the tensor, as gradients have it between an
// update and the next backward. Views go with their whole; to read one meanwhile is an error.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp {

// REQUIRES the whole of what at::empty or at::zeros made, here as below.
void release_memory(const Tensor& whole);
// Of the tensor's own allocator, on the current STREAM; nothing is written to it. False: it was
// there.
bool provide_memory(const Tensor& whole);

}  // namespace wmtp
