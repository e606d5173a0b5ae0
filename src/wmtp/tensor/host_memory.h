// Host memory of large tensors that come and go every step.
#pragma once
#include <cstdint>

namespace wmtp {

// Freed memory stays with the process: by default every large tensor is mapped and unmapped anew,
// and its pages are faulted in again each step. To be called once, before large allocations.
void keep_freed_host_memory();
std::int64_t peak_resident_bytes();

}  // namespace wmtp
