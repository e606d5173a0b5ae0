// A file written for the first time, at any place of it. For folders that become visible as a
// whole (fresh_folder.h): the file itself has its final name from the start.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "wmtp/storage/open_file.h"

namespace wmtp::weights {

class NewFile {
 public:
  // REQUIRES that there is no such file. Failures, here and below, are ErrorKind::io.
  NewFile(const std::filesystem::path& path, unsigned mode);

  // Asks for the space at once where the file system can, so that a full disk shows before the
  // work is done.
  void reserve(std::uint64_t bytes);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void append(std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }
  // BLOCKS until the bytes are on the disk. May be called once.
  void finish();

  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void fail(std::string_view action) const;

  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t size_ = 0;
};

// A whole small file, on the disk when it returns. REQUIRES that there is no such file.
void write_new_file(const std::filesystem::path& path, std::string_view text, unsigned mode);

}  // namespace wmtp::weights
