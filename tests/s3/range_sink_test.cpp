#include "wmtp/s3/range_sink.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::s3 {
namespace {

http::Headers with_etag(const std::string& etag) {
  http::Headers headers;
  headers.add("ETag", etag);
  return headers;
}

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(RangeSink, EachTryBeginsAtTheFirstByte) {
  std::string got(6, '.');
  RangeSink sink("abc", "s3://b/k", [&](std::uint64_t at, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) got[at++] = static_cast<char>(byte);
  });
  sink.begin(206, with_etag("\"abc\""));
  sink.write(bytes_of_text("wro"));
  sink.begin(206, with_etag("\"abc\""));
  sink.write(bytes_of_text("rig"));
  sink.write(bytes_of_text("ht!"));
  EXPECT_EQ(got, "right!");
}

TEST(RangeSink, AnotherObjectIsAnErrorBeforeItsFirstByte) {
  RangeSink sink("abc", "s3://b/k", [](std::uint64_t, std::span<const std::byte>) { FAIL(); });
  EXPECT_WMTP_ERROR(sink.begin(206, with_etag("\"other\"")), ErrorKind::io,
                    "s3://b/k was replaced while it was being read");
  EXPECT_WMTP_ERROR(sink.begin(206, http::Headers()), ErrorKind::io, "replaced");
}

}  // namespace
}  // namespace wmtp::s3
