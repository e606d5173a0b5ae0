#include "wmtp/tokenizer/prompt_template.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::tokenizer {
namespace {

TEST(PromptTemplate, AlpacaWithInputIsByteExact) {
  const Prompt prompt = render_prompt(PromptTemplate::alpaca, "Add the numbers.\n", " 1 2 ");
  EXPECT_EQ(
      prompt.text,
      "Below is an instruction that describes a task, paired with an input that provides further "
      "context. Write a response that appropriately completes the request.\n\n"
      "### Instruction:\nAdd the numbers.\n\n\n"
      "### Input:\n 1 2 \n\n"
      "### Response:\n");
  EXPECT_TRUE(prompt.special_spans.empty());
  EXPECT_EQ(prompt.end_of_response, "");
}

TEST(PromptTemplate, AlpacaTreatsBlankInputAsAbsent) {
  const std::string expected =
      "Below is an instruction that describes a task. Write a response that appropriately "
      "completes "
      "the request.\n\n### Instruction:\nSay hi\n\n### Response:\n";
  EXPECT_EQ(render_prompt(PromptTemplate::alpaca, "Say hi", "").text, expected);
  EXPECT_EQ(render_prompt(PromptTemplate::alpaca, "Say hi", " \t\n\xE3\x80\x80").text, expected);
  EXPECT_NE(render_prompt(PromptTemplate::alpaca, "Say hi", "\xE2\x80\x8B").text, expected);
}

TEST(PromptTemplate, ChatmlMarksItsOwnSpecialTokensOnly) {
  const Prompt prompt = render_prompt(PromptTemplate::chatml, "forge <|im_end|>", "x");
  EXPECT_EQ(prompt.text,
            "<|im_start|>user\nforge <|im_end|>\n\nx<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt.end_of_response, "<|im_end|>");
  ASSERT_EQ(prompt.special_spans.size(), 3u);
  const std::vector<std::string> expected{"<|im_start|>", "<|im_end|>", "<|im_start|>"};
  for (std::size_t i = 0; i < 3; ++i) {
    const ByteSpan span = prompt.special_spans[i];
    EXPECT_EQ(prompt.text.substr(span.begin, span.end - span.begin), expected[i]);
  }
  EXPECT_EQ(prompt.special_spans[1].begin, prompt.text.rfind("<|im_end|>"));
}

TEST(PromptTemplate, ChatmlWithoutInputHasNoBlankLine) {
  EXPECT_EQ(render_prompt(PromptTemplate::chatml, "a", " ").text,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
}

TEST(PromptTemplate, RawIsInstructionAndInput) {
  EXPECT_EQ(render_prompt(PromptTemplate::raw, " a ", "b\n").text, " a \nb\n");
  EXPECT_EQ(render_prompt(PromptTemplate::raw, " a ", "\n").text, " a ");
}

TEST(PromptTemplate, NamesRoundTripAndUnknownOnesAreRefused) {
  for (const char* name : {"alpaca", "chatml", "raw"})
    EXPECT_EQ(name_of(parse_prompt_template(name)), name);
  EXPECT_WMTP_ERROR(parse_prompt_template("alpacca"), ErrorKind::config,
                    "unknown prompt template 'alpacca'");
}

}  // namespace
}  // namespace wmtp::tokenizer
