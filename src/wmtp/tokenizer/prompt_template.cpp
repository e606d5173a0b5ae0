#include "wmtp/tokenizer/prompt_template.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "wmtp/core/error.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

constexpr std::string_view kTurnStart = "<|im_start|>";
constexpr std::string_view kTurnEnd = "<|im_end|>";
constexpr std::string_view kWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.";
constexpr std::string_view kWithoutInput =
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.";

void append_special(Prompt& prompt, std::string_view token) {
  prompt.special_spans.push_back({prompt.text.size(), prompt.text.size() + token.size()});
  prompt.text += token;
}

Prompt render_alpaca(std::string_view instruction, std::string_view input) {
  Prompt prompt;
  const bool has_input = !is_blank(input);
  prompt.text = fmt::format("{}\n\n### Instruction:\n{}\n\n",
                            has_input ? kWithInput : kWithoutInput, instruction);
  if (has_input) prompt.text += fmt::format("### Input:\n{}\n\n", input);
  prompt.text += "### Response:\n";
  return prompt;
}

Prompt render_chatml(std::string_view instruction, std::string_view input) {
  Prompt prompt;
  append_special(prompt, kTurnStart);
  prompt.text += "user\n";
  prompt.text += instruction;
  if (!is_blank(input)) (prompt.text += "\n\n") += input;
  append_special(prompt, kTurnEnd);
  prompt.text += "\n";
  append_special(prompt, kTurnStart);
  prompt.text += "assistant\n";
  prompt.end_of_response = kTurnEnd;
  return prompt;
}

Prompt render_raw(std::string_view instruction, std::string_view input) {
  Prompt prompt;
  prompt.text = instruction;
  if (!is_blank(input)) (prompt.text += "\n") += input;
  return prompt;
}

TokenId require_token(const Tokenizer& tokenizer, std::string_view token) {
  if (const std::optional<TokenId> id = tokenizer.id_of(token)) return *id;
  throw Error(
      ErrorKind::config, "tokenizer",
      fmt::format("the template chatml needs the token {}, which this tokenizer does not have",
                  token),
      "use the template alpaca or raw, or the tokenizer of a chat model");
}

}  // namespace

PromptTemplate parse_prompt_template(std::string_view name) {
  for (const PromptTemplate known :
       {PromptTemplate::alpaca, PromptTemplate::chatml, PromptTemplate::raw})
    if (name == name_of(known)) return known;
  throw Error(ErrorKind::config, "tokenizer", fmt::format("unknown prompt template '{}'", name),
              "known templates: alpaca, chatml, raw");
}

std::string_view name_of(PromptTemplate prompt_template) {
  constexpr std::array<std::string_view, 3> kNames{"alpaca", "chatml", "raw"};
  return kNames.at(static_cast<std::size_t>(prompt_template));
}

Prompt render_prompt(PromptTemplate prompt_template, std::string_view instruction,
                     std::string_view input) {
  switch (prompt_template) {
    case PromptTemplate::alpaca:
      return render_alpaca(instruction, input);
    case PromptTemplate::chatml:
      return render_chatml(instruction, input);
    case PromptTemplate::raw:
      return render_raw(instruction, input);
  }
  throw Error(ErrorKind::internal, "tokenizer", "prompt template out of range");
}

TokenId end_of_response_id(PromptTemplate prompt_template, const Tokenizer& tokenizer) {
  if (prompt_template == PromptTemplate::chatml) {
    require_token(tokenizer, kTurnStart);
    return require_token(tokenizer, kTurnEnd);
  }
  if (const std::optional<TokenId> id = tokenizer.eos_id()) return *id;
  throw Error(ErrorKind::config, "tokenizer", "the tokenizer names no EOS token",
              "give eos_token in tokenizer_config.json beside the tokenizer");
}

}  // namespace wmtp::tokenizer
