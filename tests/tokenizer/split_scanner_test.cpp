// The scanners against the regular expressions they stand for, run by PCRE2 on our own classes.
#include "wmtp/tokenizer/text/split_scanner.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.h"
#include "wmtp/tokenizer/text/regex.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

class ScannerTest : public testing::TestWithParam<KnownPattern> {};

TEST_P(ScannerTest, EqualsItsRegularExpressionOnRandomText) {
  const Regex regex(regex_of(GetParam()), "test");
  const std::vector<std::string> parts{"a",  "B",      "\uAC00",     "1",       "\u00B2", " ",
                                       "  ", "\n",     "\r\n",       "\t",      "\u3000", "\u180E",
                                       "'",  "'s",     "'LL",        "'\u017F", "'re",    "!",
                                       "?!", "\u0301", "\U0001F642", "_",       "\u0085"};
  unsigned state = 7;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525u + 1013904223u;
      text += parts[(state >> 10) % parts.size()];
    }
    const SplitScanner scanner(text, GetParam());
    const std::string prepared = regex.prepare(text);
    for (std::size_t at = 0; at < text.size();) {
      const auto match = regex.find(prepared, at);
      ASSERT_TRUE(match && match->begin == at) << text;
      const std::size_t end = scanner.next(at);
      ASSERT_EQ(end, match->end) << "at byte " << at << " of '" << text << "'";
      at = end;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, ScannerTest,
                         testing::Values(KnownPattern::qwen, KnownPattern::llama3,
                                         KnownPattern::gpt2),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(CharTable, HasTheCountsOfTheReference) {
  const CharTable& table = CharTable::instance();
  int letters = 0, numbers = 0, spaces = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    letters += (table[code] & kLetter) != 0;
    numbers += (table[code] & kNumber) != 0;
    spaces += (table[code] & kWhiteSpace) != 0;
  }
  EXPECT_EQ(letters, 141028);
  EXPECT_EQ(numbers, 1911);
  EXPECT_EQ(spaces, 25);
  EXPECT_FALSE(table[0x180E] & kWhiteSpace);
}

TEST(Utf8, PrefixAndReplacement) {
  EXPECT_EQ(valid_utf8_prefix("abc\u00E9\U0001F642"), 9u);
  EXPECT_EQ(valid_utf8_prefix("ab\xC0\x80"), 2u);
  EXPECT_EQ(valid_utf8_prefix("12345678\xED\xA0\x80"), 8u);
  EXPECT_EQ(to_valid_utf8("a\xF0\x9F\x99|\xE2\x82"), "a\uFFFD|\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
}

// GPT-4o's: with every class spelled out it is beyond what PCRE2 compiles.
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TEST(Regex, TakesPatternsOfManyLargeClasses) {
  const Regex regex(kO200k, "test");
  EXPECT_LT(translate_pattern(kO200k, "test").text.size(), 4000u);
  const std::string text = "HTTPServer's \u00C9t\u00C9 \u4E2D\u6587 12345'\u017F \U0001F642/";
  const std::string prepared = regex.prepare(text);
  EXPECT_EQ(prepared.size(), text.size());
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size(); at = regex.find(prepared, at)->end)
    pieces.push_back(text.substr(at, regex.find(prepared, at)->end - at));
  const std::vector<std::string> expected{
      "HTTPServer's", " \u00C9t", "\u00C9",  " \u4E2D\u6587", " ",
      "123",          "45",       "'\u017F", " \U0001F642/"};
  EXPECT_EQ(pieces, expected);
}

TEST(Regex, KeepsCharactersApartThatThePatternTellsApart) {
  const auto matches = [](const char* pattern, std::string_view text) {
    const Regex regex(pattern, "test");
    const auto found = regex.find(regex.prepare(text), 0);
    return found && found->begin == 0 && found->end == text.size();
  };
  EXPECT_TRUE(matches("[\u00E9\u00EA-\u00FF]\\p{L}", "\u00F1\u00F6"));
  EXPECT_FALSE(matches("[\u00E9\u00EA-\u00F0]\\p{L}", "\u00F1\u00F6"));
  EXPECT_TRUE(matches("\\x{4e00}[\\x{4e00}-\\x{9fa5}]+", "\u4E00\u4E01\u9FA5"));
  EXPECT_FALSE(matches("\\x{4e00}\\p{L}", "\u4E01\u4E01"));
  EXPECT_TRUE(matches("[^\\p{L}]\\P{L}\\S", "\u3000\u00B2\u0301"));
  EXPECT_TRUE(matches("(?i:\u00E9\\p{Lu}k)", "\u00C9\u00E9\u212A"));
  EXPECT_FALSE(matches("\u00E9\\p{Lu}k", "\u00C9\u00E9\u212A"));
}

TEST(Regex, RunawayPatternsEndAtTheLimit) {
  const Regex regex("(x+x+)+[yz]", "test");
  EXPECT_WMTP_ERROR(regex.find(std::string(60, 'x'), 0), ErrorKind::data, "match limit exceeded");
}

TEST(Regex, DialectDifferencesAreRefused) {
  for (const char* pattern :
       {"\\bx", "[a[b]]", "[a&&b]", "(?m:x)", "(?<n>x)", "\\p{Hangul}", "\\h", "a{1,2}+", "\\"})
    EXPECT_WMTP_ERROR(Regex(pattern, "test"), ErrorKind::config, "not supported");
}

}  // namespace
}  // namespace wmtp::tokenizer
