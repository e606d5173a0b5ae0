// Decoding token by token, for text shown while it is generated.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

// What push() and finish() return, joined, is decode() of all ids, as long as no run of `<0xHH>`
// tokens holds invalid UTF-8 behind a complete character. An incomplete character is held back.
class StreamDecoder {
 public:
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);

  std::string push(TokenId id);  // the text that became certain with this token; may be empty
  std::string finish();          // what was held back; afterwards a new stream may begin
  bool holds() const { return holds_; }  // an incomplete character is held back

 private:
  std::string emit_up_to(const std::string& text, std::size_t end);

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::vector<TokenId> window_;     // decoders treat the first token apart, so one stays as context
  std::size_t context_tokens_ = 0;  // tokens of window_ that are wholly emitted
  std::size_t emitted_bytes_ = 0;   // of the window's text
  bool holds_ = false;
};

// The text that each token adds to that of the tokens before it, special tokens shown as decode()
// shows them; joined it is decode(ids, false), with the bound above. A token alone would lose the
// space in front of its word, or show half a character: a character of several tokens stands with
// the first of them.
std::vector<std::string> token_texts(const Tokenizer& tokenizer, std::span<const TokenId> ids);

}  // namespace wmtp::tokenizer
