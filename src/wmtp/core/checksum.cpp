#include "wmtp/core/checksum.h"

#include <openssl/evp.h>

#include <cstring>

#include "wmtp/core/error.h"

namespace wmtp {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  WMTP_CHECK(state_->context && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
             "SHA-256 is not available in OpenSSL");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  WMTP_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "SHA-256 update");
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  WMTP_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1, "SHA-256 finish");
  return digest;
}

Sha256Digest sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (std::uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  return to_hex(sha256(bytes));
}

namespace {

constexpr auto kCrcTable = [] {
  std::array<std::array<std::uint32_t, 256>, 8> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
    table[0][i] = crc;
  }
  for (std::uint32_t i = 0; i < 256; ++i)
    for (std::size_t slice = 1; slice < 8; ++slice)
      table[slice][i] = (table[slice - 1][i] >> 8) ^ table[0][table[slice - 1][i] & 255];
  return table;
}();

std::uint32_t crc32c_portable(const std::byte* data, std::size_t size, std::uint32_t crc) {
  while (size >= 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t slice = 0; slice < 8; ++slice)
      crc ^= kCrcTable[7 - slice][(word >> (8 * slice)) & 255];
    data += 8, size -= 8;
  }
  while (size-- > 0)
    crc = (crc >> 8) ^ kCrcTable[0][(crc ^ std::to_integer<std::uint32_t>(*data++)) & 255];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(const std::byte* data,
                                                             std::size_t size, std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  return crc32c_portable(data, size, static_cast<std::uint32_t>(wide));
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool hardware = __builtin_cpu_supports("sse4.2");
  if (hardware) return ~crc32c_sse42(bytes.data(), bytes.size(), ~crc);
#endif
  return ~crc32c_portable(bytes.data(), bytes.size(), ~crc);
}

}  // namespace wmtp
