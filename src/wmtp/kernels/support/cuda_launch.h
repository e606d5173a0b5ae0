// From tensors to the launchers of the GPU plugin.
#pragma once
#include <string_view>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cuda/launchers.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

// The plugin's launchers; Error config "no GPU here" without it.
const CudaKernels& gpu_kernels();
void* gpu_stream();  // ATen's current stream

// Error config for what has no GPU body (fp64).
Element element_of(std::string_view op, const Tensor& tensor);
inline void* data_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}
inline float* floats_of(const Tensor& tensor) {
  return static_cast<float*>(data_of(tensor));
}
inline std::int64_t row_stride(const Tensor& matrix) {
  return matrix.defined() ? matrix.stride(0) : 0;
}

// Throws launch_error when a launcher returned something other than 0.
void check_launch(std::string_view op, int code);
// The kind is that of the code (tensor/cuda_error.h); `text` is the runtime's own.
Error launch_error(std::string_view op, int code, std::string_view text);

}  // namespace wmtp::kernels
