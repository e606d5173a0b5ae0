#include "fuzz/tokenizer_use.h"
#include "wmtp/tokenizer/bpe/hf_tokenizer.h"

WMTP_FUZZ_TARGET(tokenizer_json) {
  using namespace wmtp;
  const std::string_view text = fuzz::text_of(bytes);
  fuzz::use_tokenizer(tokenizer::HfTokenizer(tokenizer::read_hf_parts(text, "file"), {}, text));
}
