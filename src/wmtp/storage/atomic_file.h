// A file that appears under its name whole and durable, or not at all: temporary name in the same
// folder, write, fsync, close, rename, fsync of the folder; every result is checked.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/storage/open_file.h"

namespace wmtp::storage {

class AtomicFile {
 public:
  static constexpr unsigned kPrivate = 0600;  // the default
  static constexpr unsigned kPublic = 0644;   // exports, on request

  // Creates the temporary file beside `path`, whose folder must exist. Failures are ErrorKind::io.
  explicit AtomicFile(const std::filesystem::path& path, unsigned mode = kPrivate);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Without commit() the temporary file is removed and the old file, if any, stays.
  ~AtomicFile();

  // Small pieces are gathered; after a failed write the file can only be discarded.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  std::uint64_t size() const { return size_; }  // bytes handed to write() so far

  // BLOCKS until the bytes and the name are on the disk. May be called once.
  void commit();

  const std::filesystem::path& path() const { return path_; }

 private:
  void flush();
  void write_through(std::span<const std::byte> bytes);
  [[noreturn]] void fail(std::string_view action);

  std::filesystem::path path_, temporary_;
  UniqueFd file_;
  std::vector<std::byte> pending_;
  std::uint64_t size_ = 0;
  bool failed_ = false, committed_ = false;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           unsigned mode = AtomicFile::kPrivate);

// BLOCKS until creations, renames and removals in `folder` are on the disk.
void sync_folder(const std::filesystem::path& folder);

}  // namespace wmtp::storage
