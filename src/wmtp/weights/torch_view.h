// Tensors of a torch.save archive are views of storages: any offset, any strides, expanded
// (stride 0) and overlapping ones too.
#pragma once
#include <cstdint>
#include <span>

#include "wmtp/tensor/tensor.h"
#include "wmtp/weights/torch_pickle.h"

namespace wmtp::weights {

// Elements [element_begin, element_begin + dst.numel()) of `view`, in row order, into the
// contiguous CPU tensor `dst`, converted to its dtype. Costs no memory beyond a small buffer.
// REQUIRES a view that lies inside `storage` (parse_torch_pickle checks).
void copy_view(const PickledTensor& view, std::span<const std::byte> storage,
               std::int64_t element_begin, const Tensor& dst);

// Elements follow each other in the storage.
bool is_contiguous(const PickledTensor& view);

}  // namespace wmtp::weights
