// Host memory of large tensors that come and go every step.
#pragma once
#include <cstdint>

namespace wmtp {

// Freed memory stays with the process: by default every large tensor is mapped and unmapped anew,
// and its pages are faulted in again each step. To be called once, before large allocations.
void keep_freed_host_memory();
std::int64_t peak_resident_bytes();
// What this machine, or the container's limit, still has to give; file pages that can go count as
// free. The largest number where the kernel does not say.
std::int64_t available_host_bytes();

}  // namespace wmtp
