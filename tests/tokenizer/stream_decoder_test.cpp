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

TEST(StreamDecoder, KeepsTheSpacesOfMetaspaceTokens) {
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
  const auto tokenizer = load_json(json);
  const Ids ids = tokenizer->encode("a a  b\u00E9", {});
  EXPECT_EQ(ids, (Ids{3, 3, 0, 0, 2, 4, 5}));
  StreamDecoder stream(tokenizer, true);
  std::string joined = stream.push(6);
  for (const TokenId id : ids) joined += stream.push(id);
  EXPECT_EQ(joined + stream.finish(), "a a  b\u00E9");
}

}  // namespace
}  // namespace wmtp::tokenizer
