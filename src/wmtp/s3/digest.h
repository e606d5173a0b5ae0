// The digests of S3's requests beside those of core/checksum.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "wmtp/core/checksum.h"

namespace wmtp::s3 {

// HMAC (RFC 2104) with SHA-256.
Sha256Digest hmac_sha256(std::string_view key, std::string_view text);

using Md5Digest = std::array<std::uint8_t, 16>;

// Streaming MD5: what Content-MD5 and ETags are made of, against damage and not against attacks.
// finish() may be called once.
class Md5 {
 public:
  Md5();
  ~Md5();
  Md5(Md5&&) noexcept;
  Md5& operator=(Md5&&) noexcept;
  void update(std::span<const std::byte> bytes);
  Md5Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};
Md5Digest md5(std::string_view bytes);

std::string base64(std::span<const std::uint8_t> bytes);  // with "=" at its end
std::string crc32c_base64(std::uint32_t crc);             // of its four bytes, high ones first

}  // namespace wmtp::s3
