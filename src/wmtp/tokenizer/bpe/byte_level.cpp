#include "wmtp/tokenizer/bpe/byte_level.h"

#include <vector>

#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {

const std::array<char32_t, 256>& byte_level_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> result{};
    char32_t next = 0x100;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      result[byte] = printable ? static_cast<char32_t>(byte) : next++;
    }
    return result;
  }();
  return alphabet;
}

std::optional<std::string> from_byte_level(std::string_view token) {
  static const std::vector<int> bytes = [] {
    std::vector<int> result(0x100 + 68, -1);
    for (std::size_t byte = 0; byte < 256; ++byte)
      result[byte_level_alphabet()[byte]] = static_cast<int>(byte);
    return result;
  }();
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const DecodedChar c = decode_char(token, at);
    if (c.code >= bytes.size() || bytes[c.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(bytes[c.code]));
    at += c.num_bytes;
  }
  return out;
}

}  // namespace wmtp::tokenizer
