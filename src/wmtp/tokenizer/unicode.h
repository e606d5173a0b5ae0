// UTF-8 and the character classes of the reference tokenizers (Unicode 16, see unicode_tables.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace wmtp::tokenizer {

// Offset of the first byte that does not continue valid UTF-8 (overlong forms, surrogates and
// values beyond U+10FFFF are invalid); text.size() when all of it is valid.
std::size_t valid_utf8_prefix(std::string_view text);

struct DecodedChar {
  char32_t code = 0;
  std::uint32_t num_bytes = 0;
};
// The character at text[at]. REQUIRES valid UTF-8 and at < text.size().
DecodedChar decode_char(std::string_view text, std::size_t at);
// The character that ends at text[end - 1]. REQUIRES valid UTF-8 and 0 < end <= text.size().
DecodedChar decode_char_before(std::string_view text, std::size_t end);
void append_utf8(char32_t code, std::string& out);

// Bytes as text: each maximal piece of invalid UTF-8 becomes U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

// The 25 code points of `\s`.
bool is_white_space(char32_t code);
bool is_blank(std::string_view text);  // white space only, or empty

}  // namespace wmtp::tokenizer
