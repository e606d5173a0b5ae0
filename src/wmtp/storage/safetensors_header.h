// The header of a safetensors file: u64 N | N bytes of JSON | data. Strict reading within fixed
// limits, and writing byte for byte as the reference does. No LibTorch here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/storage/stored_tensor.h"

namespace wmtp::storage {

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // sorted by name
  Metadata metadata;
  std::uint64_t data_begin = 0;  // 8 + N
};

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// `front` holds at least the header of a file of `file_bytes` bytes. What is wrong in any way
// (sizes, JSON, duplicates, overflow, holes, overlaps, trailing bytes) is ErrorKind::data with
// `origin` and the fact; nothing is allocated that the file's own size does not justify.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> front,
                                           std::uint64_t file_bytes, std::string_view origin);

// The tensors in the reference's order (dtype descending, then name) with their places set, and the
// first 8 + N bytes of the file. With the one metadata key "format" they equal save_file's.
struct SafetensorsPlan {
  std::vector<StoredTensor> tensors;
  std::string header;
  std::uint64_t data_bytes = 0;
};
// REQUIRES unique names and valid shapes (Error internal otherwise); begin and end are ignored.
SafetensorsPlan plan_safetensors(std::vector<StoredTensor> tensors, const Metadata& metadata);

}  // namespace wmtp::storage
