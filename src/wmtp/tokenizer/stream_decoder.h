// Decoding token by token, for text shown while it is generated.
#pragma once
#include <memory>
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

 private:
  std::string emit_up_to(const std::string& text, std::size_t end);

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::vector<TokenId> window_;     // decoders treat the first token apart, so one stays as context
  std::size_t context_tokens_ = 0;  // tokens of window_ that are wholly emitted
  std::size_t emitted_bytes_ = 0;   // of the window's text
};

}  // namespace wmtp::tokenizer
