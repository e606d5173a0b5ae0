// The emulated GPU's memory is host memory: a tensor "on the GPU" and its twin "on the CPU" are two
// names for the same bytes. What the GPU holds is counted as the real one's allocator counts it.
#pragma once
#include <memory>
#include <vector>

#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::emulated {

inline c10::Device gpu() {
  return {c10::DeviceType::CUDA, 0};
}
inline constexpr std::int64_t kGpuBytes = std::int64_t{16} << 30;

// What lies under the tensors of one storage, and stays for a recording when they are gone.
using Memory = std::shared_ptr<c10::Storage>;

// The same bytes, sizes and strides as a CPU tensor.
Tensor host_twin(const Tensor& on_gpu);
// The same for work that is noted: while it lives the tensor can be given back, as it could be
// while a graph names its address.
Tensor recorded_twin(const Tensor& on_gpu);
// A tensor of that device with the extents of `like` over the bytes of `storage`, which is its own.
Tensor host_view(const c10::Storage& storage, const Tensor& like);
Tensor gpu_view(const c10::Storage& storage, const Tensor& like);
// The memory of a fresh CPU tensor becomes the GPU's, and is counted until the last tensor over it
// is gone.
Tensor adopt(const Tensor& host);

// What an operator has done to the extents and the memory of a twin is done to its tensor.
void follow(const Tensor& on_gpu, const Tensor& host);

// Memory that nobody has written yet shows: numbers are NaN, indices -1.
void poison(void* data, std::size_t bytes);
void poison(const Memory& memory);  // that was given back: whoever reads it has missed a wait

// All that tensors hold now.
std::vector<Memory> memory_in_use();

GpuMemory memory_figures();
void reset_peak();

}  // namespace wmtp::emulated
