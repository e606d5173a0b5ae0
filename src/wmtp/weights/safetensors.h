// safetensors files, mapped for reading (tensor_sink.h writes them). No LibTorch here; tensors come
// out in safetensors_tensor.h.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "wmtp/storage/mapped_file.h"
#include "wmtp/weights/stored_tensor.h"

namespace wmtp::weights {

class SafetensorsFile {
 public:
  // A file the user named. A file that cannot be opened is ErrorKind::config, a bad one
  // ErrorKind::data.
  static SafetensorsFile open(const std::filesystem::path& path);
  explicit SafetensorsFile(storage::MappedFile file);

  std::span<const StoredTensor> tensors() const { return header_.tensors; }  // sorted by name
  const Metadata& metadata() const { return header_.metadata; }
  const StoredTensor* find(std::string_view name) const;  // nullptr: not here
  // The tensor's bytes; aligned to nothing. Valid as long as this object.
  std::span<const std::byte> bytes(const StoredTensor& tensor) const;
  const storage::MappedFile& file() const { return file_; }
  std::uint64_t data_begin() const { return header_.data_begin; }

 private:
  storage::MappedFile file_;
  storage::SafetensorsHeader header_;
};

}  // namespace wmtp::weights
