// The characters that a pattern can tell apart. \p{L} alone is 600 ranges, and PCRE2 holds 64 KiB
// of compiled pattern: so characters that are in the same sets of the pattern are made one
// character, in the pattern and in the text, and a set is left with a handful.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/tokenizer/text/code_ranges.h"

namespace wmtp::tokenizer {

class Alphabet {
 public:
  Alphabet() = default;  // every character stands for itself
  // `sets` are all that the pattern asks of characters beyond ASCII. ASCII stands for itself.
  explicit Alphabet(std::span<const CodeRanges> sets);

  // The text in this alphabet. A character is replaced by one of as many bytes: offsets stay.
  // REQUIRES valid UTF-8.
  std::string fold(std::string_view text) const;
  // What is left of one of the sets.
  CodeRanges fold(const CodeRanges& set) const;

 private:
  void store(const std::vector<std::uint16_t>& kinds);

  std::vector<char32_t> letters_;  // one for each kind of character; empty: no folding
  // Kinds of all code points in two stages: blocks of 256.
  std::vector<std::uint16_t> block_of_, kinds_;
};

}  // namespace wmtp::tokenizer
