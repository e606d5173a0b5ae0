#include "wmtp/http/headers.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/http/http_date.h"

namespace wmtp::http {
namespace {

// The reader after these lines, and the first fault.
struct ReadHead {
  HeadReader reader;
  std::string fault;
};

ReadHead read_head(std::initializer_list<std::string_view> lines) {
  ReadHead head;
  for (const std::string_view line : lines)
    if (head.fault.empty()) head.fault = head.reader.take(line);
  return head;
}

TEST(Headers, NamesAreFoundWithoutRegardToCase) {
  const Headers headers{{"ETag", "\"a\""}, {"X-Two", "1"}, {"x-two", " 2 "}};
  EXPECT_EQ(headers.find("etag"), "\"a\"");
  EXPECT_EQ(headers.find("X-TWO"), "1, 2");
  EXPECT_EQ(headers.find("X-Thre"), std::nullopt);
  EXPECT_EQ(headers.fields()[2].first, "x-two");
}

TEST(Headers, SetReplacesAndRemoveRemovesAll) {
  Headers headers{{"A", "1"}, {"a", "2"}, {"B", "3"}};
  headers.set("a", "4");
  EXPECT_EQ(headers.find("A"), "4");
  headers.remove("A");
  EXPECT_FALSE(headers.has("a"));
  EXPECT_EQ(headers.fields().size(), 1u);
}

TEST(Headers, WhatCannotStandInALineIsRefusedWithoutItsValue) {
  Headers headers;
  for (const char* name : {"", "a b", "a:", "a\r\n", "\xc3\xbc"})
    EXPECT_WMTP_ERROR(headers.add(name, "x"), ErrorKind::config, "no name of a header");
  try {
    headers.add("Authorization", "Bearer canary\r\nX-Other: y");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string_view(error.what()).find("canary"), std::string_view::npos);
    EXPECT_THAT(error.what(), testing::HasSubstr("the header Authorization has a control"));
  }
}

TEST(Headers, SecretOnesAreKnown) {
  EXPECT_TRUE(is_secret_header("authorization"));
  EXPECT_TRUE(is_secret_header("X-AMZ-Security-Token"));
  EXPECT_FALSE(is_secret_header("Content-Type"));
}

TEST(HeadReader, ReadsStatusAndFields) {
  const auto head =
      read_head({"HTTP/1.1 206 Partial Content\r\n", "ETag: x\r\n", "A:\r\n", "\r\n"});
  EXPECT_EQ(head.fault, "");
  EXPECT_TRUE(head.reader.is_complete());
  EXPECT_EQ(head.reader.status(), 206);
  EXPECT_EQ(head.reader.headers().find("etag"), "x");
  EXPECT_EQ(head.reader.headers().find("a"), "");
}

TEST(HeadReader, InterimAnswersAndTrailersDoNotCount) {
  const auto head = read_head({"HTTP/1.1 103 Early Hints\r\n", "Link: x\r\n", "\r\n",
                               "HTTP/1.0 404\r\n", "A: b\n", "\n", "Trailer: y\r\n"});
  EXPECT_EQ(head.fault, "");
  EXPECT_TRUE(head.reader.is_complete());
  EXPECT_EQ(head.reader.status(), 404);
  EXPECT_FALSE(head.reader.headers().has("Link"));
  EXPECT_FALSE(head.reader.headers().has("Trailer"));
  EXPECT_FALSE(read_head({"HTTP/1.1 100 Continue\r\n", "\r\n"}).reader.is_complete());
}

TEST(HeadReader, WhatIsNoHeadIsNamed) {
  for (const char* line : {"", "SSH-2.0-OpenSSH_9", "HTTP/2 200", "HTTP/1.1", "HTTP/1.1 20",
                           "http/1.1 200 OK", "HTTP/1.1  200 OK"})
    EXPECT_NE(read_head({line}).fault, "") << line;
  EXPECT_NE(read_head({"HTTP/1.1 2xx OK"}).fault.find("three digits"), std::string::npos);
  EXPECT_NE(read_head({"HTTP/1.1 2000 OK"}).fault.find("three digits"), std::string::npos);
  EXPECT_NE(read_head({"HTTP/1.1 099 OK"}).fault.find("below 100"), std::string::npos);
  for (const char* line : {"no colon", ": no name", "a b: c", " folded", "a: b\x01", "a: b\rc: d"})
    EXPECT_NE(read_head({"HTTP/1.1 200 OK", line}).fault, "") << line;
}

TEST(HeadReader, HasALimit) {
  HeadReader reader;
  EXPECT_EQ(reader.take("HTTP/1.1 200 OK\r\n"), "");
  const std::string line = "X-Filler: " + std::string(1000, 'x') + "\r\n";
  std::size_t num_lines = 0;
  while (reader.take(line).empty()) ++num_lines;
  EXPECT_TRUE(reader.is_too_large());
  EXPECT_EQ(num_lines, (kMaxHeadBytes - 17) / line.size());
}

TEST(HeadReader, HasALimitOfLinesInterimAnswersIncluded) {
  HeadReader reader;
  std::size_t num_lines = 0;
  while (reader.take(num_lines % 2 == 0 ? "HTTP/1.1 100\r\n" : "\r\n").empty()) ++num_lines;
  EXPECT_TRUE(reader.is_too_large());
  EXPECT_EQ(num_lines, kMaxHeadLines);
}

TEST(ContentRange, IsReadStrictly) {
  const auto range = parse_content_range("bytes 10-19/100");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 10u);
  EXPECT_EQ(range->last, 19u);
  EXPECT_EQ(range->total, 100u);
  EXPECT_EQ(parse_content_range("bytes 0-0/*")->total, std::nullopt);
  for (const char* bad : {"", "bytes", "bytes 10-19", "bytes 19-10/100", "bytes 10-100/100",
                          "bytes -1-2/3", "bytes 1 -2/3", "items 0-1/2", "bytes */100",
                          "bytes 0-18446744073709551616/*", "bytes 0/1-2"})
    EXPECT_FALSE(parse_content_range(bad)) << bad;
}

TEST(HttpDate, AllThreeFormsAreRead) {
  constexpr std::int64_t kThen = 784111777;
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), kThen);
  EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), kThen);
  EXPECT_EQ(parse_http_date("Sun Nov  6 08:49:37 1994"), kThen);
  EXPECT_EQ(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
  EXPECT_EQ(parse_http_date("Thu, 29 Feb 2024 23:59:60 GMT"), 1709251200);
}

TEST(HttpDate, AnythingElseIsNone) {
  for (const char* bad : {"", "120", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
                          "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
                          "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT",
                          "Sun, 06 Nov 1994 08:49:37 GMT ", "Sun Nov 6 08:49:37 1994",
                          "Sun, -6 Nov 1994 08:49:37 GMT", "Sun ", ", "})
    EXPECT_FALSE(parse_http_date(bad)) << bad;
}

}  // namespace
}  // namespace wmtp::http
