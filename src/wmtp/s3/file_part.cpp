#include "wmtp/s3/file_part.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "wmtp/core/error.h"

namespace wmtp::s3 {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10;

}  // namespace

std::size_t FilePart::read(std::span<std::byte> out) {
  const auto wanted =
      static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), range_.length - done_));
  if (wanted == 0) return 0;
  ssize_t count = 0;
  do {
    count = ::pread(file_, out.data(), wanted, static_cast<off_t>(range_.first + done_));
  } while (count < 0 && errno == EINTR);
  if (count < 0)
    throw Error(ErrorKind::io, "s3",
                fmt::format("cannot read the file to upload at byte {}: {}", range_.first + done_,
                            std::strerror(errno)));
  if (count == 0)
    throw Error(
        ErrorKind::io, "s3",
        fmt::format("the file to upload ends at byte {}, it was longer when the upload began",
                    range_.first + done_),
        "is something else writing to it?");
  done_ += static_cast<std::uint64_t>(count);
  return static_cast<std::size_t>(count);
}

DigestNeeds needs_of(const Session& session) {
  return {.md5 = session.options().checksum != Checksum::none,
          .sha256 = !session.location().endpoint.is_tls(),
          .crc32c = session.options().checksum == Checksum::crc32c};
}

PartDigests digest_part(int file, http::ByteRange range, DigestNeeds needs) {
  if (!needs.md5 && !needs.sha256 && !needs.crc32c) return {};
  FilePart part(file, range);
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, range.length)));
  Md5 md5;
  Sha256 sha256;
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < range.length;) {
    const std::span<const std::byte> piece(buffer.data(), part.read(buffer));
    if (needs.md5) md5.update(piece);
    if (needs.sha256) sha256.update(piece);
    if (needs.crc32c) crc = crc32c(piece, crc);
    done += piece.size();
  }
  return {needs.md5 ? md5.finish() : Md5Digest{}, needs.sha256 ? to_hex(sha256.finish()) : "",
          needs.crc32c ? crc32c_base64(crc) : ""};
}

Payload payload_of(FilePart& part, const PartDigests& digests, Checksum checksum) {
  return {.bytes = {},
          .source = &part,
          .sha256_hex = digests.sha256_hex,
          .content_md5 = checksum == Checksum::md5 ? base64(digests.md5) : "",
          .crc32c = digests.crc32c};
}

}  // namespace wmtp::s3
