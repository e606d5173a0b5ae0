#include "wmtp/core/utf8.h"

#include <cstdint>

namespace wmtp {
namespace {

std::size_t size_by_first_byte(std::uint8_t byte) {
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte <= 0xDF) return 2;
  if (byte >= 0xE0 && byte <= 0xEF) return 3;
  if (byte >= 0xF0 && byte <= 0xF4) return 4;
  return 0;  // a continuation, an overlong form, or beyond Unicode
}

}  // namespace

Utf8Char first_utf8_char(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::size_t size = size_by_first_byte(byte(0));
  if (size == 0 || size > text.size()) return {};
  if (size == 1) return {byte(0), 1};
  char32_t code = byte(0) & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? Utf8Char{} : Utf8Char{code, size};
}

}  // namespace wmtp
