#include "fuzz/tokenizer_use.h"
#include "wmtp/tokenizer/sentencepiece/sentencepiece.h"

WMTP_FUZZ_TARGET(tokenizer_model) {
  using namespace wmtp;
  const std::string_view text = fuzz::text_of(bytes);
  fuzz::use_tokenizer(
      tokenizer::SentencePieceTokenizer(tokenizer::read_sentencepiece(text, "file"), {}, text));
}
