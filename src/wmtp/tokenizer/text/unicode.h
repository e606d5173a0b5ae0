// UTF-8 and the character classes of the reference tokenizers (Unicode 16, see unicode_tables.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/core/utf8.h"

namespace wmtp::tokenizer {

inline constexpr std::string_view kReplacementChar = "\uFFFD";
inline constexpr std::string_view kMetaspace = "\u2581";  // "▁", SentencePiece's space

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

// Bytes as text: each maximal piece of invalid UTF-8 becomes U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

// What the reference does with a character, as bits.
enum CharFlag : std::uint8_t {
  kLetter = 1,        // \p{L}
  kNumber = 2,        // \p{N}
  kWhiteSpace = 4,    // \s
  kWordChar = 8,      // \w of single_word and Whitespace
  kNumericChar = 16,  // what Digits splits off
  kPunctuationChar = 32,
  kNfcActive = 64,     // may change under NFC or act on what stands before it
  kFormsActive = 128,  // the same for NFD, NFKC, NFKD
};

// The flags of all code points, two-stage. THREADS: shared, never written after construction.
class CharTable {
 public:
  static const CharTable& instance();
  std::uint8_t operator[](char32_t code) const {
    return blocks_[block_of_[code >> 8] << 8 | (code & 0xFF)];
  }

 private:
  CharTable();
  std::vector<std::uint16_t> block_of_;
  std::vector<std::uint8_t> blocks_;
};

// Lower case as Rust maps single characters (no context).
void append_lowercase(char32_t code, std::string& out);

// The 25 code points of `\s`.
bool is_white_space(char32_t code);
bool is_blank(std::string_view text);  // white space only, or empty

// Where the word that begins at text[at] ends: before the kMetaspace that follows something else.
std::size_t word_end(std::string_view text, std::size_t at);

}  // namespace wmtp::tokenizer
