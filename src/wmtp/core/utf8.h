// UTF-8, read strictly: no overlong forms, no surrogates, nothing beyond U+10FFFF.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace wmtp {

struct Utf8Char {
  char32_t code = 0;
  std::size_t size = 0;  // bytes; 0: no valid character begins here
};

// The character at the front of `text`. REQUIRES text not to be empty.
Utf8Char first_utf8_char(std::string_view text);

// The offset of the first byte that begins no valid character; nothing: the text is valid.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// Its first `count` code points, of which a screen shows each in one column (wide ones aside).
// Bytes that are no UTF-8 count as one each or go with the one before.
std::string_view first_code_points(std::string_view text, std::size_t count);

// REQUIRES a code point: at most U+10FFFF.
void append_utf8(char32_t code, std::string& out);

}  // namespace wmtp
