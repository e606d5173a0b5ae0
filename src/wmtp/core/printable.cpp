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

// Bytes of the colour sequence at the front of the text, 0 if there is none.
std::size_t colour_size(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
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

std::string escape_control(std::string_view text, Colours colours) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t size = colours == Colours::kept ? colour_size(text) : 0;
    if (size > 0) {
      out += text.substr(0, size);
    } else if (const Utf8Char next = first_utf8_char(text); next.size == 0) {
      size = 1;
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(text[0]));
    } else {
      size = next.size;
      if (is_shown(next.code))
        out += text.substr(0, size);
      else
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

std::string shell_word(std::string_view word) {
  const bool plain = std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("%+,-./:=@_").find(c) != std::string_view::npos;
  });
  if (plain && !word.empty()) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace wmtp
