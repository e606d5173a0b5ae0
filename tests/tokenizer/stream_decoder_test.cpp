#include "wmtp/tokenizer/stream_decoder.h"

#include <gtest/gtest.h>

#include "tokenizer/tiny_tokenizer.h"

namespace wmtp::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

TEST(StreamDecoder, HoldsAnIncompleteCharacterBack) {
  StreamDecoder stream(load_json(tiny_byte_level()), true);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xEC), "");
  EXPECT_EQ(stream.push(0x95), "");
  EXPECT_EQ(stream.push(0x88), "\uC548");
  EXPECT_EQ(stream.push(260), "") << "special, skipped";
  EXPECT_EQ(stream.push(259), "hello");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.push('b'), "b");
}

TEST(StreamDecoder, JoinedPartsEqualDecodeOfRandomIds) {
  const auto tokenizer = load_json(tiny_byte_level());
  for (unsigned seed = 0; seed < 300; ++seed) {
    unsigned state = seed * 2654435761u + 1;
    Ids ids;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525u + 1013904223u;
      ids.push_back(static_cast<TokenId>((state >> 8) % 263));
    }
    StreamDecoder stream(tokenizer, false);
    std::string joined;
    for (const TokenId id : ids) joined += stream.push(id);
    joined += stream.finish();
    EXPECT_EQ(joined, tokenizer->decode(ids, false)) << "seed " << seed;
  }
}

// Byte-fallback BPE as Llama 2's tokenizer.json has it.
nlohmann::json tiny_metaspace() {
  nlohmann::json json = tiny_byte_level();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", "\u2581"},
                           {"prepend_scheme", "first"},
                           {"split", false}};
  json["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  json["model"]["vocab"] = {{"\u2581", 0},  {"a", 1},      {"b", 2},
                            {"\u2581a", 3}, {"<0xC3>", 4}, {"<0xA9>", 5}};
  json["model"]["merges"] = nlohmann::json::array({nlohmann::json::array({"\u2581", "a"})});
  json["model"]["byte_fallback"] = true;
  json["added_tokens"] = nlohmann::json::array({added_token(6, "</s>", true)});
  return json;
}

TEST(StreamDecoder, KeepsTheSpacesOfMetaspaceTokens) {
  const auto tokenizer = load_json(tiny_metaspace());
  const Ids ids = tokenizer->encode("a a  b\u00E9", {});
  EXPECT_EQ(ids, (Ids{3, 3, 0, 0, 2, 4, 5}));
  StreamDecoder stream(tokenizer, true);
  std::string joined = stream.push(6);
  for (const TokenId id : ids) joined += stream.push(id);
  EXPECT_EQ(joined + stream.finish(), "a a  b\u00E9");
}

TEST(TokenTexts, KeepSpacesAndWholeCharacters) {
  const auto tokenizer = load_json(tiny_metaspace());
  const std::vector<std::string> texts = token_texts(*tokenizer, Ids{3, 3, 0, 0, 2, 4, 5, 6, 3});
  EXPECT_EQ(texts,
            (std::vector<std::string>{"a", " a", " ", " ", "b", "\u00E9", "", "</s>", " a"}));
  EXPECT_TRUE(token_texts(*tokenizer, {}).empty());
  const std::vector<std::string> cut = token_texts(*load_json(tiny_byte_level()), Ids{'a', 0xF0});
  EXPECT_EQ(cut, (std::vector<std::string>{"a", "\uFFFD"}));
}

TEST(TokenTexts, CharactersOfByteTokensMayFollowEachOther) {
  nlohmann::json json = tiny_metaspace();
  int next = 6;
  for (const char* byte : {"<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0xE4>", "<0xB8>", "<0xAD>"})
    json["model"]["vocab"][byte] = next++;
  json["added_tokens"] = nlohmann::json::array({added_token(next, "</s>", true)});
  const auto tokenizer = load_json(json);
  const Ids ids{10, 11, 12, 6, 7, 8, 9, 6, 7, 8, 9, 10, 11, 12, 3};
  const std::vector<std::string> texts = token_texts(*tokenizer, ids);
  std::string joined;
  for (const std::string& text : texts) joined += text;
  EXPECT_EQ(joined, "\u4E2D\U0001F600\U0001F600\u4E2D a");
  EXPECT_EQ(joined, tokenizer->decode(ids, false));
  EXPECT_EQ(texts[0], "\u4E2D");
  EXPECT_EQ(texts[3], "\U0001F600");
}

}  // namespace
}  // namespace wmtp::tokenizer
