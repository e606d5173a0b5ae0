#include "wmtp/core/printable.h"

#include <gtest/gtest.h>

#include "wmtp/core/rng.h"
#include "wmtp/core/utf8.h"

namespace wmtp {
namespace {

TEST(Printable, OrdinaryTextStays) {
  for (const char* text : {"", "plain", "tabs\tand\nlines", "Grüße, 世界 🙂", "a\\b \"c\""})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, WhatATerminalActsOnIsSpelledOut) {
  EXPECT_EQ(printable("\x1b[2J"), "\\u001b[2J");
  EXPECT_EQ(printable(std::string_view("a\0b\r\a\x7f", 6)), "a\\u0000b\\u000d\\u0007\\u007f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // CSI in one character
  EXPECT_EQ(printable("user\xe2\x80\xae"
                      "exe"),
            "user\\u202eexe");  // right-to-left override
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80"), "\\xff\\xc0\\xaf\\xed\\xa0\\x80");
}

TEST(Printable, OwnColoursMayStay) {
  EXPECT_EQ(escape_control("\x1b[1;31mred\x1b[0m\x1b[2J", Colours::kept),
            "\x1b[1;31mred\x1b[0m\\u001b[2J");
  EXPECT_EQ(escape_control("\x1b[0m"), "\\u001b[0m");
}

TEST(Printable, LongWordsAreCutInTheMiddle) {
  const std::string digits(100'000, '7');
  const std::string shown = printable("rms_norm_eps is " + digits + ", must be a number");
  EXPECT_EQ(shown, "rms_norm_eps is " + digits.substr(0, 120) + "[99821 more]" +
                       digits.substr(0, 59) + ", must be a number");
  EXPECT_EQ(printable(std::string(200, 'x')), std::string(200, 'x'));
  std::string wide;
  for (int i = 0; i < 201; ++i) wide += "ü";
  EXPECT_EQ(printable(wide), wide.substr(0, 240) + "[21 more]" + wide.substr(282));
}

// Whatever the bytes: the result is UTF-8 without a control character, and printing it again
// changes nothing.
TEST(Printable, AnyBytes) {
  RngStream rng(1, "printable");
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(rng.below(64), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
    const std::string shown = printable(bytes);
    for (std::string_view rest = shown; !rest.empty();) {
      const Utf8Char next = first_utf8_char(rest);
      ASSERT_GT(next.size, 0u);
      ASSERT_TRUE(next.code == '\n' || next.code == '\t' ||
                  (next.code >= 0x20 && (next.code < 0x7F || next.code >= 0xA0)));
      rest.remove_prefix(next.size);
    }
    EXPECT_EQ(printable(shown), shown);
  }
}

TEST(ShellWord, IsQuotedWhereAShellWouldActOnIt) {
  EXPECT_EQ(shell_word("runs/a-1/x.yaml"), "runs/a-1/x.yaml");
  EXPECT_EQ(shell_word("my run.yaml"), "'my run.yaml'");
  EXPECT_EQ(shell_word("it's $(x)"), "'it'\\''s $(x)'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace wmtp
