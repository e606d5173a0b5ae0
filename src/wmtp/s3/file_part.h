// A part of a file as the body of a request: read twice (digests, then sending), never whole in
// memory.
#pragma once
#include <cstdint>

#include "wmtp/core/unique_fd.h"
#include "wmtp/http/message.h"
#include "wmtp/s3/bucket.h"
#include "wmtp/s3/digest.h"

namespace wmtp::s3 {

// BORROWS the descriptor. A file that ends too early is ErrorKind::io.
class FilePart : public http::BodySource {
 public:
  FilePart(int file, http::ByteRange range) : file_(file), range_(range) {}
  std::uint64_t size() const override { return range_.length; }
  std::size_t read(std::span<std::byte> out) override;
  void rewind() override { done_ = 0; }

 private:
  int file_;
  http::ByteRange range_;
  std::uint64_t done_ = 0;
};

// Those that are not needed are empty, an MD5 is zero.
struct PartDigests {
  Md5Digest md5{};
  std::string sha256_hex;
  std::string crc32c;  // base64
};
struct DigestNeeds {
  bool md5 = true, sha256 = false, crc32c = false;
};
// What a session needs: SHA-256 only where requests are signed over their bodies, without TLS, and
// no MD5 where the user wants no checksum; it costs more than all else that an upload does.
DigestNeeds needs_of(const Session& session);
// BLOCKS: reads the part, unless nothing is needed.
PartDigests digest_part(int file, http::ByteRange range, DigestNeeds needs = {});

// What goes up for it. BORROWS the part.
Payload payload_of(FilePart& part, const PartDigests& digests, Checksum checksum);

}  // namespace wmtp::s3
