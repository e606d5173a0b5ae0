// A regular file mapped read-only. Pages are read when touched and given back under memory
// pressure, so a model of any size costs no memory of its own.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "wmtp/storage/open_file.h"

namespace wmtp::storage {

enum class Access { normal, sequential, random };

class MappedFile {
 public:
  // A file the user named; links are followed.
  static MappedFile open(const std::filesystem::path& path, ErrorKind kind = ErrorKind::io);
  // Maps an open regular file; `path` stands in messages. The descriptor is closed, the mapping
  // stays.
  static MappedFile map(UniqueFd file, const std::filesystem::path& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid as long as this object. A file that another process truncates meanwhile ends this one, as
  // with every mapping (cut_mappings.h).
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

  // Hints to the kernel; they change speed and memory, never contents.
  void advise(Access access) const;
  void prefetch(std::size_t begin, std::size_t end) const;
  // Gives the pages wholly inside [begin, end) back; touching them again reads the file again.
  void drop(std::size_t begin, std::size_t end) const;

 private:
  void advise_range(std::size_t begin, std::size_t end, int advice) const;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace wmtp::storage
