// The split patterns that have no scanner of their own: PCRE2 behind a translation from Oniguruma's
// (Ruby) dialect. Character classes become explicit ranges of our tables, since PCRE2 follows
// another Unicode version, over the few characters that the pattern tells apart (alphabet.h); what
// the two dialects read differently is refused by name.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/tokenizer/text/alphabet.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

class Regex {
 public:
  // Error config where the pattern uses something the translation does not know; Error data where
  // it is over 16 KiB or does not compile. `place` names file and component in errors. REQUIRES
  // valid UTF-8.
  Regex(std::string_view pattern, std::string_view place);
  ~Regex();
  Regex(Regex&&) noexcept;

  // The text as find() takes it, with the same offsets. REQUIRES valid UTF-8. THREADS: safe.
  std::string prepare(std::string_view text) const;
  // First match at or after `from` of a text from prepare(). Error data beyond the match limit (1e6
  // steps) or the heap limit (16 MiB). THREADS: safe.
  std::optional<ByteSpan> find(std::string_view prepared, std::size_t from) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// The pattern as PCRE2 is to read it, on texts in the alphabet. Same errors.
struct TranslatedPattern {
  std::string text;
  Alphabet alphabet;
};
TranslatedPattern translate_pattern(std::string_view pattern, std::string_view place);

}  // namespace wmtp::tokenizer
