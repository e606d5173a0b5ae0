#include "wmtp/s3/digest.h"

#include <openssl/evp.h>

#include "wmtp/core/error.h"

namespace wmtp::s3 {
namespace {

constexpr std::size_t kHmacBlockBytes = 64;

std::string_view text_of_digest(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

Sha256Digest hmac_sha256(std::string_view key, std::string_view text) {
  const Sha256Digest short_key = sha256(key);
  if (key.size() > kHmacBlockBytes) key = text_of_digest(short_key);
  std::string inner(kHmacBlockBytes, '\x36'), outer(kHmacBlockBytes, '\x5c');
  for (std::size_t at = 0; at < key.size(); ++at) {
    inner[at] = static_cast<char>(inner[at] ^ key[at]);
    outer[at] = static_cast<char>(outer[at] ^ key[at]);
  }
  Sha256 first, second;
  first.update(inner);
  first.update(text);
  second.update(outer);
  second.update(text_of_digest(first.finish()));
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return second.finish();
}

struct Md5::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Md5::Md5() : state_(std::make_unique<State>()) {
  if (!state_->context || EVP_DigestInit_ex(state_->context, EVP_md5(), nullptr) != 1)
    throw Error(ErrorKind::config, "s3", "OpenSSL has no MD5 here, which ETags of S3 are made of",
                "a machine in FIPS mode leaves it out; run without that mode");
}
Md5::~Md5() = default;
Md5::Md5(Md5&&) noexcept = default;
Md5& Md5::operator=(Md5&&) noexcept = default;

void Md5::update(std::span<const std::byte> bytes) {
  WMTP_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "MD5 update");
}

Md5Digest Md5::finish() {
  Md5Digest digest{};
  WMTP_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1, "MD5 finish");
  return digest;
}

Md5Digest md5(std::string_view bytes) {
  Md5 hash;
  hash.update(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return hash.finish();
}

std::string base64(std::span<const std::uint8_t> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL adds a NUL
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string crc32c_base64(std::uint32_t crc) {
  std::array<std::uint8_t, 4> bytes{};
  for (std::size_t at = 0; at < bytes.size(); ++at)
    bytes[at] = static_cast<std::uint8_t>(crc >> (24 - 8 * at));
  return base64(bytes);
}

}  // namespace wmtp::s3
