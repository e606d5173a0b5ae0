// What a run does with a tokenizer, in small.
#pragma once
#include "fuzz/fuzz.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::fuzz {

inline constexpr std::size_t kMaxPieceBytes = 4'096;

inline void use_tokenizer(const tokenizer::Tokenizer& tokenizer) {
  constexpr std::string_view kTexts[] = {"", "hello world", "  a<s> b<|im_start|>\n\tx12345 'll",
                                         "\u00e9\u2581\U0001F600 e\u0301"};
  for (const std::string_view text : kTexts)
    for (const bool special : {false, true}) {
      const auto ids = tokenizer.encode(text, {.add_special = special, .allow_special = special});
      for (const tokenizer::TokenId id : ids)
        require(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
      tokenizer.decode(ids, special);
    }
  for (tokenizer::TokenId id = 0; id < 8 && id < tokenizer.vocab_size(); ++id)
    require(tokenizer.piece(id).size() <= kMaxPieceBytes, "a token beyond the limit");
  tokenizer.describe();
}

}  // namespace wmtp::fuzz
