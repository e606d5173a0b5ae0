#include "wmtp/storage/header_scanner.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/planted_fault.h"
#include "wmtp/core/utf8.h"

namespace wmtp::storage {
namespace {

std::string shown_char(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code > 0x7e ? fmt::format("byte 0x{:02x}", code) : fmt::format("'{}'", c);
}

}  // namespace

void HeaderScanner::refuse(std::string_view fact) const {
  throw Error(ErrorKind::data, "checkpoint",
              fmt::format("{}: header, byte {}: {}", origin_, offset_ + at_, fact),
              "is this a safetensors file, and is it complete?");
}

void HeaderScanner::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
    ++at_;
}

bool HeaderScanner::take(char c) {
  skip_space();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void HeaderScanner::expect(char c) {
  if (take(c)) return;
  refuse(fmt::format("expected '{}', found {}", c,
                     at_ == text_.size() ? "the end" : shown_char(text_[at_])));
}

std::uint32_t HeaderScanner::hex4() {
  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() + planted_off_by_one ? text_[at_] : '\0';
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) refuse("bad \\u escape");
    code = code << 4 | static_cast<std::uint32_t>(digit);
  }
  return code;
}

void HeaderScanner::append_escape(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  if (const auto simple = kLetters.find(c); c != '\0' && simple != kLetters.npos) {
    out.push_back(kMeaning[simple]);
    return;
  }
  if (c != 'u') refuse("bad escape in a string");
  std::uint32_t code = hex4();
  if (code >= 0xDC00 && code < 0xE000) refuse("a lone surrogate in a string");
  if (code >= 0xD800 && code < 0xDC00) {
    if (text_.substr(at_, 2) != "\\u") refuse("a lone surrogate in a string");
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) refuse("a lone surrogate in a string");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(code, out);
}

std::string HeaderScanner::string() {
  expect('"');
  std::string out;
  for (;;) {
    if (at_ == text_.size()) refuse("a string does not end");
    const char c = text_[at_++];
    if (c == '"') return out;
    if (static_cast<unsigned char>(c) < 0x20) refuse("a control character in a string");
    if (c == '\\')
      append_escape(out);
    else
      out.push_back(c);
  }
}

std::uint64_t HeaderScanner::integer() {
  skip_space();
  const std::size_t start = at_;
  std::uint64_t value = 0;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<std::uint64_t>(text_[at_] - '0'), &value))
      refuse("a number does not fit 64 bits");
    ++at_;
  }
  const char next = at_ < text_.size() ? text_[at_] : '\0';
  if (at_ == start || next == '.' || next == 'e' || next == 'E')
    refuse("expected a non-negative integer");
  if (text_[start] == '0' && at_ - start > 1) refuse("a number with a leading zero");
  return value;
}

void HeaderScanner::end() {
  skip_space();
  if (at_ != text_.size())
    refuse(fmt::format("{} after the end of the object", shown_char(text_[at_])));
}

}  // namespace wmtp::storage
