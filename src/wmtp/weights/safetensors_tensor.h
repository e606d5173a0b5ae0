// Between stored bytes and LibTorch's tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"
#include "wmtp/weights/stored_tensor.h"

namespace wmtp::weights {

std::optional<DType> to_dtype(StoredDtype stored);  // nothing: wmtp does not compute with this type
StoredDtype to_stored(DType dtype);                 // Error internal for types safetensors lacks

// Copies elements [element_begin, element_begin + dst.numel()) of `tensor`, whose whole bytes are
// `bytes` (aligned to nothing), into the contiguous CPU tensor `dst`, converting to its dtype
// (round to nearest). Error config for a type wmtp does not compute with.
void copy_elements(const StoredTensor& tensor, std::span<const std::byte> bytes,
                   std::int64_t element_begin, Tensor dst);

// The bytes of a contiguous CPU tensor. BORROWS `tensor`.
std::span<const std::byte> bytes_of(const Tensor& tensor);

}  // namespace wmtp::weights
