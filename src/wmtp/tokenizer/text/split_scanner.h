// Hand-written scanners for the split patterns of Qwen, Llama 3 and GPT-2: the same pieces as the
// regular expressions, in one pass over the bytes. Inlined into their callers: this is the hot
// loop.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {

enum class KnownPattern { qwen, llama3, gpt2 };

// The scanner that equals this regular expression, if there is one.
std::optional<KnownPattern> known_pattern(std::string_view regex);
std::string_view regex_of(KnownPattern pattern);
std::string_view name_of(KnownPattern pattern);

// Walks `text` (REQUIRES valid UTF-8); next() is the end of the piece that begins at `at`.
class SplitScanner {
 public:
  SplitScanner(std::string_view text, KnownPattern pattern)
      : data_(text.data()), size_(text.size()), pattern_(pattern), table_(CharTable::instance()) {}

  std::size_t next(std::size_t at) const {
    return pattern_ == KnownPattern::gpt2 ? next_gpt2(at) : next_qwen(at);
  }

 private:
  struct Char {
    std::uint8_t flags;
    std::uint32_t num_bytes;
  };
  static constexpr std::uint8_t kWordLike = kLetter | kNumber;
  static constexpr std::uint8_t kKinds = kLetter | kNumber | kWhiteSpace;

  Char at_char(std::size_t at) const {
    const DecodedChar c = decode_char({data_, size_}, at);
    return {table_[c.code], c.num_bytes};
  }
  bool is_newline(std::size_t at) const { return data_[at] == '\n' || data_[at] == '\r'; }

  // End of the run of characters whose kind bits are exactly `kind` (0 = none of the three).
  std::size_t run_end(std::size_t at, std::uint8_t kind) const {
    while (at < size_) {
      const Char c = at_char(at);
      if ((c.flags & kKinds) != kind) break;
      at += c.num_bytes;
    }
    return at;
  }

  // Bytes of 's 't 're 've 'm 'll 'd after an apostrophe at `at`, or 0. Folding also takes U+017F
  // as s.
  std::size_t contraction_length(std::size_t at, bool fold) const {
    if (at + 1 >= size_) return 0;
    const auto letter = [&](std::size_t i) {
      const char c = data_[i];
      return fold && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    };
    const char first = letter(at + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (at + 2 >= size_) return 0;
    const char second = letter(at + 2);
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    if (first == 'l' && second == 'l') return 3;
    return fold && first == '\xC5' && second == '\xBF' ? 3 : 0;
  }

  // White space from `at` on, as `\s+(?!\S)|\s+`: all of it at the end of the text, else all but
  // the last character, which goes with what follows.
  std::size_t white_space_end(std::size_t at) const {
    const std::size_t end = run_end(at, kWhiteSpace);
    if (end == size_) return end;
    const std::size_t last = end - decode_char_before({data_, size_}, end).num_bytes;
    return last > at ? last : end;
  }

  std::size_t next_qwen(std::size_t at) const {
    const Char c = at_char(at);
    if (c.flags & kLetter) return run_end(at + c.num_bytes, kLetter);
    if (c.flags & kNumber) return digits_end(at + c.num_bytes);
    if (data_[at] == '\'')
      if (const std::size_t length = contraction_length(at, true)) return at + length;
    const std::size_t after = at + c.num_bytes;
    if (after < size_ && !is_newline(at)) {
      const Char follower = at_char(after);
      if (follower.flags & kLetter) return run_end(after + follower.num_bytes, kLetter);
      if (data_[at] == ' ' && (follower.flags & kKinds) == 0) return symbols_end(after);
    }
    if ((c.flags & kWhiteSpace) == 0) return symbols_end(at);
    const std::size_t end = run_end(at, kWhiteSpace);
    for (std::size_t i = end; i > at; --i)
      if (is_newline(i - 1)) return i;
    return white_space_end(at);
  }

  std::size_t digits_end(std::size_t at) const {
    if (pattern_ == KnownPattern::qwen) return at;
    for (int more = 0; more < 2 && at < size_; ++more) {
      const Char c = at_char(at);
      if ((c.flags & kNumber) == 0) break;
      at += c.num_bytes;
    }
    return at;
  }

  // `[^\s\p{L}\p{N}]+[\r\n]*`
  std::size_t symbols_end(std::size_t at) const {
    at = run_end(at, 0);
    while (at < size_ && is_newline(at)) ++at;
    return at;
  }

  std::size_t next_gpt2(std::size_t at) const {
    if (data_[at] == '\'')
      if (const std::size_t length = contraction_length(at, false)) return at + length;
    std::size_t begin = at;
    if (data_[at] == ' ' && at + 1 < size_) ++begin;
    const std::uint8_t kind = at_char(begin).flags & kKinds;
    return kind == kWhiteSpace ? white_space_end(at) : run_end(begin, kind);
  }

  const char* data_;
  std::size_t size_;
  KnownPattern pattern_;
  const CharTable& table_;
};

}  // namespace wmtp::tokenizer
