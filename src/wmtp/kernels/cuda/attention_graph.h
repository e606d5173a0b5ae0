// The graphs that cuDNN makes plans of packed_attention.h from. Host work only: neither a GPU nor
// LibTorch is needed to build one.
#pragma once
#include <cudnn_frontend.h>

#include <memory>
#include <unordered_map>

#include "wmtp/kernels/cuda/packed_attention.h"

namespace wmtp::kernels {

// Not finished: build() is the caller's, with a handle or with the properties of a device. The
// compute capability (90 is 9.0) is asked of the current device where it is 0.
std::shared_ptr<cudnn_frontend::graph::Graph> attention_graph(const PackedAttentionShape& shape,
                                                              int capability = 0);

// What that graph reads and writes, by the ids of its tensors.
std::unordered_map<std::int64_t, void*> graph_pointers(const CudaPackedAttention& args);

}  // namespace wmtp::kernels
