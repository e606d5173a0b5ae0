// The zip archives that torch.save writes: stored entries only, found through the central
// directory.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/storage/mapped_file.h"

namespace wmtp::weights {

struct ZipEntry {
  std::string name;
  std::uint64_t header_begin = 0;  // of the local header
  std::uint64_t begin = 0, size = 0;
  std::uint32_t crc32 = 0;
};

class TorchZip {
 public:
  // ErrorKind::data for what is no well-formed archive: entries compressed, encrypted, repeated,
  // overlapping, outside the file. ErrorKind::config for TorchScript and for files from before
  // PyTorch 1.6.
  explicit TorchZip(storage::MappedFile file);

  // An entry below the archive's one stem folder ("data.pkl", "data/0"); nullptr: not there.
  const ZipEntry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const ZipEntry& entry) const;
  // Error data when the bytes do not have the CRC-32 of the directory. Reads them all. Archives
  // that were saved without checksums (every one is 0) pass; the constructor warned.
  void check_crc(const ZipEntry& entry) const;
  // Gives the pages of a part of the entry back.
  void drop(const ZipEntry& entry, std::uint64_t offset, std::uint64_t size) const;
  const std::string& origin() const { return origin_; }

 private:
  void read_directory();
  void check_entries();
  void find_stem();
  void look_for_checksums();
  [[noreturn]] void refuse(std::string_view fact) const;

  storage::MappedFile file_;
  std::string origin_, stem_;
  std::vector<ZipEntry> entries_;  // sorted by name
  bool has_checksums_ = true;
};

}  // namespace wmtp::weights
