// A tensor as a file describes it: name, element type, shape, place. No LibTorch here.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::storage {

// The types of safetensors, in the reference's order (its writer sorts by it).
enum class StoredDtype : std::uint8_t {
  BOOL,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64,
};
std::string_view name_of(StoredDtype dtype);
std::optional<StoredDtype> stored_dtype(std::string_view name);
std::uint32_t bits_of(StoredDtype dtype);

struct StoredTensor {
  std::string name;
  StoredDtype dtype = StoredDtype::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, relative to the file's data
};

std::string shape_text(std::span<const std::int64_t> shape);  // [3, 4]
std::int64_t numel(std::span<const std::int64_t> shape);      // REQUIRES a checked shape
// Bytes of a tensor; nothing when a product overflows or the last element does not end on a byte.
std::optional<std::uint64_t> tensor_bytes(StoredDtype dtype, std::span<const std::int64_t> shape);

}  // namespace wmtp::storage
