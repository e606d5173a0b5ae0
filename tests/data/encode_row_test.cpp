// Rows as tokens: what is prompt and what is target, and what truncation leaves of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/corpus_fixture.h"
#include "wmtp/data/tokens/cache_builder.h"

namespace wmtp::data {
namespace {

using test::FakeTokenizer;
using test::row_of;

TEST(EncodeRow, PromptIsMaskedAndEosIsATarget) {
  const FakeTokenizer tokenizer;
  EncodedRow out;
  RowEncoder(tokenizer, {}).encode(row_of("add", "", "abc"), out);
  const std::string prompt =
      "Below is an instruction that describes a task. Write a response that appropriately "
      "completes the "
      "request.\n\n### Instruction:\nadd\n\n### Response:\n";
  EXPECT_EQ(tokenizer.decode(out.ids, false), "<s>" + prompt + "abc</s>");
  EXPECT_EQ(out.prompt_len, prompt.size() + 1);
  EXPECT_EQ(out.ids.size() - out.prompt_len, 4u);
  EXPECT_EQ(out.flags, kTokenRowBos | kTokenRowEos);
}

TEST(EncodeRow, ATokenAcrossTheBorderBelongsToTheResponse) {
  const FakeTokenizer tokenizer;
  EncodedRow joint, split;
  RowEncoder(tokenizer, {}).encode(row_of("add", "", "Xbc"), joint);
  EXPECT_TRUE(joint.flags & kTokenRowMerged);
  EXPECT_EQ(joint.ids[joint.prompt_len], FakeTokenizer::kMerged);
  EncodeSettings settings;
  settings.tokenize = Tokenize::split;
  RowEncoder(tokenizer, settings).encode(row_of("add", "", "Xbc"), split);
  EXPECT_FALSE(split.flags & kTokenRowMerged);
  EXPECT_EQ(split.prompt_len, joint.prompt_len + 1);
  EXPECT_EQ(tokenizer.decode(split.ids, false), tokenizer.decode(joint.ids, false));
}

TEST(EncodeRow, SpecialTokensInFieldsAreOrdinaryText) {
  const FakeTokenizer tokenizer(false);
  EncodeSettings settings;
  settings.prompt_template = PromptTemplate::chatml;
  EncodedRow out;
  RowEncoder(tokenizer, settings).encode(row_of("<|im_end|>", "", "<|im_start|>"), out);
  const auto count = [&](tokenizer::TokenId id) {
    return std::count(out.ids.begin(), out.ids.end(), id);
  };
  EXPECT_EQ(count(FakeTokenizer::kStart), 2);
  EXPECT_EQ(count(FakeTokenizer::kEnd), 2);  // of the user's turn, and the end of the response
  EXPECT_EQ(out.ids.back(), FakeTokenizer::kEnd);
  settings.allow_special_tokens = true;
  RowEncoder(tokenizer, settings).encode(row_of("<|im_end|>", "", "<|im_start|>"), out);
  EXPECT_EQ(count(FakeTokenizer::kStart), 3);
}

TEST(Truncation, ThreeModes) {
  const StoredRow row{20, 12, kTokenRowBos | kTokenRowEos};  // BOS, 11 prompt, 7 output, EOS
  RowCut cut = cut_row(row, 20, Truncate::right);
  EXPECT_FALSE(cut.truncated);
  EXPECT_TRUE(cut.ends_with_eos);
  cut = cut_row(row, 15, Truncate::right);
  EXPECT_TRUE(cut.truncated && !cut.ends_with_eos && cut.has_target());
  EXPECT_EQ(cut.length(), 15u);
  EXPECT_EQ(cut.lost_tokens, 5u);
  EXPECT_FALSE(cut_row(row, 12, Truncate::right).has_target());
  EXPECT_TRUE(cut_row(row, 13, Truncate::right).has_target());
  cut = cut_row(row, 15, Truncate::keep_response);  // BOS + the last 6 of the prompt + all 8
  EXPECT_EQ(cut.head, 1u);
  EXPECT_EQ(cut.tail_begin, 6u);
  EXPECT_EQ(cut.tail, 14u);
  EXPECT_EQ(cut.prompt_len, 7u);
  EXPECT_TRUE(cut.ends_with_eos);
  cut = cut_row(row, 5, Truncate::keep_response);  // BOS + the first 4 of the response
  EXPECT_EQ(cut.tail_begin, 12u);
  EXPECT_EQ(cut.prompt_len, 1u);
  EXPECT_EQ(cut.length(), 5u);
  EXPECT_FALSE(cut.ends_with_eos);
  EXPECT_TRUE(cut_row(row, 19, Truncate::drop).dropped);
  EXPECT_FALSE(cut_row({1, 0, 0}, 9, Truncate::right).has_target()) << "one token has no source";
}

}  // namespace
}  // namespace wmtp::data
