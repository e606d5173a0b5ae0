// Files read front to back, decompressed on the way: by the end of their name gzip (.gz), Zstandard
// (.zst), anything else as it is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace wmtp::storage {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` from its front; fewer bytes than asked for only at the end, 0 = the end. A damaged
  // or truncated stream is ErrorKind::data, naming the compressed offset. REQUIRES a non-empty
  // `out`.
  virtual std::size_t read(std::span<std::byte> out) = 0;
};

enum class Compression { none, gzip, zstd };
Compression compression_of(const std::filesystem::path& path);  // by the name's ending

// Memory: one buffer of 256 KiB, plus the decoder's window (at most 128 MiB for Zstandard: what
// asks for more is refused). Several gzip members or Zstandard frames in a row are one stream.
std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path);

}  // namespace wmtp::storage
