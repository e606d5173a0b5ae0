// The container of .widx and .wtok files: a 4 KiB header, sections of plain arrays at multiples of
// 64 bytes, then a CRC-32C per MiB of everything between. Little-endian.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "wmtp/data/sections/section_spool.h"
#include "wmtp/storage/mapped_file.h"

namespace wmtp::data {

constexpr std::size_t kHeaderBytes = 4096;
constexpr std::size_t kMaxSections = 12;
constexpr std::size_t kFactsBytes = 3072;  // room for what a format says about itself

struct FileFormat {
  std::string_view magic;  // 8 characters
  std::uint32_t version = 1;
  std::string rebuild_hint;  // what to do about a damaged file
};

// Writes the file whole or not at all. `failpoints` = "index" or "cache".
struct SectionFileContent {
  FileFormat format;
  std::span<const std::byte> facts;     // at most kFactsBytes
  std::vector<SectionSpool*> sections;  // at most kMaxSections
  std::string_view failpoints;
};
void write_section_file(const std::filesystem::path& path, const SectionFileContent& content);

class SectionFile {
 public:
  // Checks header, version, lengths; damage is ErrorKind::data naming the file.
  static SectionFile open(const std::filesystem::path& path, const FileFormat& format);
  // The header's facts if the file has a good header of this format, else empty. Never throws for
  // bad content: used to decide whether a file is stale.
  static std::vector<std::byte> peek_facts(const std::filesystem::path& path,
                                           const FileFormat& format);

  template <class T>
  T facts() const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kFactsBytes);
    T value;
    std::memcpy(&value, facts_.data(), sizeof(T));
    return value;
  }
  std::size_t num_sections() const { return sections_.size(); }
  // A section as an array; ErrorKind::data unless it holds exactly `count` values.
  template <class T>
  std::span<const T> section(std::size_t index, std::uint64_t count) const {
    const auto bytes = section_bytes(index, count, sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), static_cast<std::size_t>(count)};
  }
  std::uint64_t section_size(std::size_t index) const;

  // Checks the CRC of every MiB that `bytes` (a part of a section) touches and was not checked yet;
  // damage is ErrorKind::data naming file and byte range. THREADS: any.
  void verify(std::span<const std::byte> bytes) const;
  void verify_section(std::size_t index) const;
  const std::filesystem::path& path() const { return file_.path(); }
  const storage::MappedFile& file() const { return file_; }

 private:
  struct Extent {
    std::uint64_t offset = 0, bytes = 0;
  };
  std::span<const std::byte> section_bytes(std::size_t index, std::uint64_t count,
                                           std::size_t width) const;
  void verify_chunk(std::size_t chunk) const;
  [[noreturn]] void damaged(std::string_view fact) const;

  FileFormat format_;
  storage::MappedFile file_;
  std::array<std::byte, kFactsBytes> facts_{};
  std::vector<Extent> sections_;
  std::uint64_t body_end_ = 0;
  std::span<const std::uint32_t> crcs_;
  std::unique_ptr<std::atomic<std::uint8_t>[]> checked_;
};

}  // namespace wmtp::data
