// The prompt templates of instruction rows: the one place that turns (instruction, input) into
// prompt text, for training, generation and evaluation alike.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

enum class PromptTemplate { alpaca, chatml, raw };

struct Prompt {
  std::string text;  // the response follows directly
  std::vector<ByteSpan>
      special_spans;            // where in `text` the template itself wrote special tokens:
                                // EncodeOptions::special_spans for `text` and `text + response`
  std::string end_of_response;  // the token after the response; empty: the tokenizer's EOS
};

// "alpaca", "chatml" or "raw"; anything else is Error config naming the known ones.
PromptTemplate parse_prompt_template(std::string_view name);
std::string_view name_of(PromptTemplate prompt_template);

// Fields go in unchanged. An `input` of white space only counts as absent.
Prompt render_prompt(PromptTemplate prompt_template, std::string_view instruction,
                     std::string_view input);

// Id of the token that ends a response under this template. Error config if the tokenizer lacks it,
// or lacks any other token the template writes.
TokenId end_of_response_id(PromptTemplate prompt_template, const Tokenizer& tokenizer);

}  // namespace wmtp::tokenizer
