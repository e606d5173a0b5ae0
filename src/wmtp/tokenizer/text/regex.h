// The split patterns that have no scanner of their own: PCRE2 behind a translation from Oniguruma's
// (Ruby) dialect. Character classes become explicit ranges of our tables, since PCRE2 follows
// another Unicode version; what the two dialects read differently is refused by name.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

class Regex {
 public:
  // Error config where the pattern uses something the translation does not know; Error data where
  // it is over 16 KiB or does not compile. `place` names file and component in errors.
  Regex(std::string_view pattern, std::string_view place);
  ~Regex();
  Regex(Regex&&) noexcept;

  // First match at or after `from`. REQUIRES valid UTF-8. Error data beyond the match limit (1e6
  // steps) or the heap limit (16 MiB). THREADS: safe.
  std::optional<ByteSpan> find(std::string_view text, std::size_t from) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// The pattern as PCRE2 is to read it. Same errors.
std::string translate_pattern(std::string_view pattern, std::string_view place);

}  // namespace wmtp::tokenizer
