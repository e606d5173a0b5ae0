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

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<std::uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::size_t size = first_utf8_char(text.substr(at)).size;
    if (size == 0) return at;
    at += size;
  }
  return std::nullopt;
}

std::string_view first_code_points(std::string_view text, std::size_t count) {
  std::size_t seen = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool starts = (static_cast<std::uint8_t>(text[at]) & 0xC0U) != 0x80U;
    if (starts && seen++ == count) return text.substr(0, at);
  }
  return text;
}

void append_utf8(char32_t code, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

}  // namespace wmtp
