// The ByteLevel alphabet: every byte as a printable character.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace wmtp::tokenizer {

// The character that stands for a byte.
const std::array<char32_t, 256>& byte_level_alphabet();
// The bytes a token of that alphabet stands for; nothing if a character lies outside it.
std::optional<std::string> from_byte_level(std::string_view token);

}  // namespace wmtp::tokenizer
