// Arrays that grow while a file is built.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "wmtp/storage/open_file.h"

namespace wmtp::data {

// An array that grows on disk, in an unlinked file of the folder given: memory stays flat.
class SectionSpool {
 public:
  explicit SectionSpool(const std::filesystem::path& folder);
  void append(std::span<const std::byte> bytes);
  template <class T>
  void append_values(std::span<const T> values) {
    append(std::as_bytes(values));
  }
  std::uint64_t size() const { return size_; }
  // Reads `out` from `offset` on. REQUIRES the range to be inside.
  void read(std::uint64_t offset, std::span<std::byte> out);

 private:
  void flush();
  UniqueFd file_;
  std::vector<std::byte> pending_;
  std::uint64_t size_ = 0, flushed_ = 0;
};

}  // namespace wmtp::data
