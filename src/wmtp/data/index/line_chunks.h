// A text file as runs of whole lines, read front to back in bounded memory: plain files are mapped,
// .gz and .zst decompressed on the way.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "wmtp/core/checksum.h"
#include "wmtp/storage/decompress.h"
#include "wmtp/storage/mapped_file.h"

namespace wmtp::data {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // of UTF-8

struct LineChunk {
  std::string_view bytes;            // whole lines; only the file's last may lack its line feed
  std::uint64_t first_offset = 0;    // of `bytes` in the decompressed file
  std::size_t readable_bytes = 0;    // from bytes.data() on, >= bytes.size(): may be read, not used
  std::uint64_t overlong_bytes = 0;  // > 0: `bytes` is only the head of one line of this length
  std::shared_ptr<const std::string> owned;  // holds the bytes of a decompressed chunk
};

struct Line {
  std::string_view text;     // without line feed, carriage return and byte-order mark
  std::uint64_t offset = 0;  // of text in the decompressed file
  std::size_t readable_bytes = 0;
  bool last_without_newline = false;
};

class LineChunkSource {
 public:
  // Chunks hold about `chunk_bytes`; a longer line up to `max_line_bytes` is a chunk of its own.
  LineChunkSource(const std::filesystem::path& path, std::uint64_t max_line_bytes,
                  std::size_t chunk_bytes = std::size_t{4} << 20);
  bool next(LineChunk& chunk);
  std::uint64_t file_bytes() const { return file_bytes_; }  // as on disk
  std::uint64_t bytes_consumed() const { return offset_; }  // decompressed, so far
  // Gives the pages before `offset` back; chunks below it must not be used any more.
  void done_until(std::uint64_t offset);

 private:
  bool next_mapped(LineChunk& chunk);
  bool next_streamed(LineChunk& chunk);
  bool skip_overlong_mapped(LineChunk& chunk);
  bool skip_overlong_streamed(LineChunk& chunk, std::string buffer);
  std::size_t fill(std::string& buffer, std::size_t want);

  std::uint64_t max_line_bytes_, file_bytes_ = 0, offset_ = 0, dropped_ = 0;
  std::size_t chunk_bytes_;
  storage::MappedFile file_;
  std::unique_ptr<storage::ByteStream> stream_;
  std::string carry_;
  bool stream_ended_ = false;
};

// Calls visit(const Line&) for each line of `chunk` (not for an overlong one), blank ones included.
void for_each_line(const LineChunk& chunk, const std::function<void(const Line&)>& visit);

bool is_blank(std::string_view text);  // nothing but space, tab, CR, LF

// SHA-256 over the bytes as on disk.
Sha256Digest fingerprint_file(const std::filesystem::path& path);

}  // namespace wmtp::data
