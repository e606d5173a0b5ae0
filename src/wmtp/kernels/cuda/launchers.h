// What the GPU plugin offers to the dispatching sources of kernels/: one slot per launcher. Torch-free: the
// .cu files include this and nothing of LibTorch. Pointers are device pointers, extents are elements, the
// stream is a cudaStream_t. A launcher checks its own launch and throws nothing: it returns a cudaError_t
// as int (0 = ok).
#pragma once
#include <cstdint>

namespace wmtp::kernels {

enum class Element : int { fp32 = 0, bf16 = 1, fp16 = 2 };

struct CudaKernels {};

}  // namespace wmtp::kernels
