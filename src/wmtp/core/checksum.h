// Digests used by every format: SHA-256 (OpenSSL) and CRC-32C (reflected polynomial 0x82F63B78).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace wmtp {

using Sha256Digest = std::array<std::uint8_t, 32>;

// Streaming SHA-256. finish() may be called once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  Sha256Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Sha256Digest sha256(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);
std::string to_hex(std::span<const std::uint8_t> bytes);  // lower case

// CRC-32C of `bytes` appended to what `crc` already covers (0 = nothing yet).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);
inline std::uint32_t crc32c(std::string_view text, std::uint32_t crc = 0) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())), crc);
}

}  // namespace wmtp
