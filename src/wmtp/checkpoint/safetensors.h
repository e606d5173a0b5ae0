// safetensors files: mapped for reading, streamed for writing. No LibTorch here; tensors come out
// in safetensors_tensor.h.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "wmtp/checkpoint/stored_tensor.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/storage/mapped_file.h"

namespace wmtp::checkpoint {

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

// Writes the header at once, then takes the data of the tensors piece by piece in the order of
// tensors(), so that memory stays at one piece. Nothing appears under the name before commit().
class SafetensorsWriter {
 public:
  // `tensors`: any order; their places are computed. Metadata gets "format": "pt" added.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<StoredTensor> tensors,
                    Metadata metadata = {}, unsigned mode = storage::AtomicFile::kPrivate);

  std::span<const StoredTensor> tensors() const { return plan_.tensors; }
  std::string_view header() const { return plan_.header; }
  // The next bytes of the data.
  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  std::uint64_t data_written() const { return file_.size() - plan_.header.size(); }
  // BLOCKS. Error internal when fewer or more bytes were written than the header says.
  void commit();

 private:
  storage::SafetensorsPlan plan_;
  storage::AtomicFile file_;
};

}  // namespace wmtp::checkpoint
