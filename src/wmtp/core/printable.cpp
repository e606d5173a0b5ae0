#include "wmtp/core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "wmtp/core/utf8.h"

namespace wmtp {
namespace {

constexpr std::size_t kLongestWord = 200, kKeptFront = 120, kKeptBack = 60;

bool is_shown(char32_t code) {
  if (code == '\n' || code == '\t') return true;
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  const bool turns_direction = code == 0x200E || code == 0x200F ||
                               (code >= 0x202A && code <= 0x202E) ||
                               (code >= 0x2066 && code <= 0x2069);
  return !turns_direction && code != 0x2028 && code != 0x2029;
}

bool is_continuation(char byte) {
  return (static_cast<std::uint8_t>(byte) & 0xC0) == 0x80;
}

std::size_t num_characters(std::string_view word) {
  return word.size() - static_cast<std::size_t>(std::ranges::count_if(word, is_continuation));
}

// Where the character of this number begins.
std::size_t begin_of_character(std::string_view word, std::size_t number) {
  std::size_t at = 0;
  for (; at < word.size(); ++at)
    if (!is_continuation(word[at]) && number-- == 0) break;
  return at;
}

void append_word(std::string& out, std::string_view word) {
  const std::size_t length = word.size() <= kLongestWord ? 0 : num_characters(word);
  if (length <= kLongestWord) {
    out += word;
    return;
  }
  out += word.substr(0, begin_of_character(word, kKeptFront));
  out += fmt::format("[{} more]", length - kKeptFront - kKeptBack);
  out += word.substr(begin_of_character(word, length - kKeptBack));
}

}  // namespace

std::string escape_control(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char next = first_utf8_char(text);
    const std::size_t size = std::max<std::size_t>(1, next.size);
    if (next.size == 0 || next.code < 0x80) {
      if (next.size != 0 && is_shown(next.code))
        out += text[0];
      else
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(text[0]));
    } else if (is_shown(next.code)) {
      out += text.substr(0, size);
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<std::uint32_t>(next.code));
    }
    text.remove_prefix(size);
  }
  return out;
}

std::string printable(std::string_view message) {
  const std::string text = escape_control(message);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n\t", at), text.size());
    append_word(out, std::string_view(text).substr(at, end - at));
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  return out;
}

}  // namespace wmtp
