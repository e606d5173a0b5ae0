// Added tokens: cut out of the text before (or, where they are `normalized`, after) normalisation.
#pragma once
#include <bitset>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

// An added token in a text. BORROWS the token.
struct TokenMatch {
  std::size_t begin = 0, end = 0;
  const AddedToken* token = nullptr;
};

// A stretch of text: an added token, or text to go on with (id < 0).
struct Section {
  std::size_t begin = 0, end = 0;
  TokenId id = -1;
};

// Finds tokens in text, leftmost and longest first.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // `contents[i]` is what tokens[i] looks like in the text that will be searched. BORROWS nothing.
  AddedTokenMatcher(std::vector<AddedToken> tokens, std::vector<std::string> contents);

  bool empty() const { return tokens_.empty(); }

  // Sections of `text` in order, empty ones left out. Special tokens count only where
  // `allow_special`; `fixed` (ascending) are matches already decided, which nothing found here may
  // overlap.
  std::vector<Section> split(std::string_view text, bool allow_special,
                             std::span<const TokenMatch> fixed = {}) const;

 private:
  TokenMatch find(std::string_view text, std::size_t from) const;
  const AddedToken* longest_at(std::string_view text, std::size_t at, std::size_t* length) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::vector<std::string> contents_;
  std::bitset<256> first_bytes_;
  bool all_special_ = true;
};

}  // namespace wmtp::tokenizer
