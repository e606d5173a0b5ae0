#include "wmtp/s3/keys/ini_file.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::s3 {
namespace {

TEST(IniFile, SectionsKeysAndComments) {
  const IniFile file = parse_ini(
      "# comment\n\n[default]\naws_access_key_id = A=B# c \nRegion=eu-west-3\r\n; comment\n"
      "[profile  x y]\ns3 =\n  max_concurrent_requests = 20\n  [odd]\nempty =\n",
      "~/.aws/config");
  ASSERT_EQ(file.size(), 2u);
  EXPECT_EQ(file.at("default").at("aws_access_key_id"), "A=B# c");
  EXPECT_EQ(file.at("default").at("region"), "eu-west-3");
  EXPECT_EQ(file.at("profile  x y").size(), 2u);
  EXPECT_EQ(file.at("profile  x y").at("s3"), "");
}

TEST(IniFile, FaultsAreNamedWithTheirLineAndWithoutTheirText) {
  const auto refused = [](std::string_view text, std::string part) {
    try {
      parse_ini(text, "credentials");
      ADD_FAILURE() << text.substr(0, 50);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_THAT(error.what(), testing::HasSubstr(part));
      EXPECT_EQ(std::string_view(error.what()).find("canary"), std::string_view::npos);
    }
  };
  refused("[a\nb = canary", "credentials:1: a [ without a ]");
  refused("[a]\ncanary\n", "credentials:2: neither a [section] nor name = value");
  refused("a = canary\n", "credentials:1: a line before the first [section]");
  refused("[a]\n= canary\n", "credentials:2: a value without a name");
  refused("[a]\nb = canary\nB = canary\n", "credentials:3: \"b\" is there twice");
  refused("[a]\n[a]\n", "credentials:2: the section \"a\" is there twice");
  refused("[ ]\n", "a section without a name");
  refused("[a]\nb = canary\xff\n", "no UTF-8");
  refused(std::string_view("[a]\0", 4), "a NUL");
  refused(std::string(kMaxIniBytes + 1, '#'), "more than 1048576");
}

}  // namespace
}  // namespace wmtp::s3
