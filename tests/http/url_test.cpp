#include "wmtp/http/url.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/core/rng.h"

namespace wmtp::http {
namespace {

Url parsed(std::string_view text) {
  return parse_url(text, "the address");
}

TEST(Url, PartsOfAWholeOne) {
  const Url url = parsed("HTTPS://Example.ORG:8443/a%20b/c;d?x=1&y=%2F");
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "example.org");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.path, "/a%20b/c;d");
  EXPECT_EQ(url.query, "x=1&y=%2F");
  EXPECT_EQ(url.user_info, "");
  EXPECT_EQ(url.authority(), "example.org:8443");
  EXPECT_EQ(url.target(), "/a%20b/c;d?x=1&y=%2F");
  EXPECT_EQ(url.text(), "https://example.org:8443/a%20b/c;d?x=1&y=%2F");
}

TEST(Url, DefaultsAreFilledInAndNotWritten) {
  EXPECT_EQ(parsed("http://h").text(), "http://h/");
  EXPECT_EQ(parsed("http://h").port, 80);
  EXPECT_EQ(parsed("https://h").port, 443);
  EXPECT_EQ(parsed("https://h:443/x").text(), "https://h/x");
  EXPECT_EQ(parsed("http://h:443/x").text(), "http://h:443/x");
  EXPECT_EQ(parsed("http://h:/x").text(), "http://h/x");
  EXPECT_EQ(parsed("http://h?q").text(), "http://h/?q");
}

TEST(Url, Ipv6LiteralsKeepTheirBracketsOutside) {
  const Url url = parsed("http://[::1]:5000/x");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.authority(), "[::1]:5000");
  EXPECT_EQ(parsed("https://[2001:DB8::2]/").authority(), "[2001:db8::2]");
  for (const char* bad : {"http://[::1", "http://[]/", "http://[::1]x/", "http://[fe80::1%25eth0]/",
                          "http://[1.2.3.4]/", "http://::1/", "http://[::g]/"})
    EXPECT_WMTP_ERROR(parsed(bad), ErrorKind::config, "the address");
}

TEST(Url, UserInfoIsKeptApartAndNeverShown) {
  const Url url = parsed("https://user:p@ss@host/path?token=canary");
  EXPECT_EQ(url.user_info, "user:p@ss");
  EXPECT_EQ(url.host, "host");
  EXPECT_EQ(url.text(), "https://host/path?token=canary");
  EXPECT_EQ(url.shown(), "https://host/path?...");
}

TEST(Url, ErrorsDoNotRepeatTheText) {
  for (const char* bad :
       {"https://user:canary@host:99999/", "https://user:canary@ho st/", "ftp://user:canary@host/",
        "https://host/?token=canary%", "https://host/?token=canary\x01", "https://canary@/",
        "https://host/canary\"", "user:canary@host"})
    try {
      parsed(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find("canary"), std::string_view::npos)
          << error.what();
    }
}

TEST(Url, WhatIsNoUrlIsRefused) {
  for (const char* bad : {"",
                          "host",
                          "http:/h",
                          "://h",
                          "file:///etc/passwd",
                          "http://",
                          "http://:80/",
                          "http://h:0/",
                          "http://h:65536/",
                          "http://h:-1/",
                          "http://h:8x/",
                          "http://h:+8/",
                          "http://h/a b",
                          "http://h/a\nb",
                          "http://h/\x7f",
                          "http://h/%zz",
                          "http://h/%4",
                          "http://h/#top",
                          "http://h/\xc3\xbc",
                          "http://h\xc3\xbc/",
                          "http://h\\x/",
                          "http://h/{}",
                          "http://127.1/",
                          "http://2130706433/",
                          "http://h\r\nX: y/"})
    EXPECT_WMTP_ERROR(parsed(bad), ErrorKind::config, "the address");
  EXPECT_WMTP_ERROR(parsed("http://h/" + std::string(kMaxUrlBytes, 'x')), ErrorKind::config,
                    "more than 8192");
  EXPECT_WMTP_ERROR(parsed("http://" + std::string(254, 'x')), ErrorKind::config, "254 bytes");
}

TEST(Url, ControlCharactersAreNamedByNumber) {
  EXPECT_WMTP_ERROR(parsed("http://h/a\x1b[2J"), ErrorKind::config, "control character 0x1b");
  EXPECT_WMTP_ERROR(parsed("http://h/a b"), ErrorKind::config, "write it as %20");
}

TEST(Url, LoopbackIsWhatStaysOnThisMachine) {
  for (const char* near : {"http://localhost/", "http://127.0.0.1/", "http://127.9.9.9:1/",
                           "http://[::1]/", "http://LOCALHOST/"})
    EXPECT_TRUE(parsed(near).is_loopback()) << near;
  for (const char* far :
       {"http://localhost.example/", "http://127.0.0.1.example/", "http://10.0.0.1/",
        "http://[::2]/", "http://127.example/", "http://localhost@far/"})
    EXPECT_FALSE(parsed(far).is_loopback()) << far;
}

TEST(Url, OnesPutTogetherAreHeldToTheSameRules) {
  Url url = parsed("https://h/");
  url.path = "/a b";
  EXPECT_WMTP_ERROR(check_url(url, "it"), ErrorKind::config, "0x20 in its path");
  url.path = "a";
  EXPECT_WMTP_ERROR(check_url(url, "it"), ErrorKind::config, "does not begin with /");
  url.path = "/";
  url.query = "a\r\nX: y";
  EXPECT_WMTP_ERROR(check_url(url, "it"), ErrorKind::config, "0x0d in its query");
  EXPECT_WMTP_ERROR(check_url(Url(), "it"), ErrorKind::config, "neither http");
}

TEST(PercentEncoding, IsThatOfSigV4) {
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a/b c+d=e*"), "a%2Fb%20c%2Bd%3De%2A");
  EXPECT_EQ(percent_encode("a/b c", Slash::kept), "a/b%20c");
  EXPECT_EQ(percent_encode("\xc3\xbc"), "%C3%BC");
  EXPECT_EQ(percent_decode("a%2fb%C3%bc+", "x"), "a/b\xc3\xbc+");
  EXPECT_WMTP_ERROR(percent_decode("a%2", "the name"), ErrorKind::config, "the name has a %");
}

TEST(PercentEncoding, AnyBytesComeBack) {
  RngStream rng(1, "url");
  for (int round = 0; round < 500; ++round) {
    std::string bytes(rng.below(40), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
    const std::string text = percent_encode(bytes);
    EXPECT_EQ(percent_decode(text, "x"), bytes);
    EXPECT_EQ(parsed("http://h/" + text).path, "/" + text);
  }
}

TEST(Query, IsSortedByEncodedNameAndValue) {
  EXPECT_EQ(query_text({{"uploads", ""}}), "uploads=");
  EXPECT_EQ(query_text({{"b", "2"}, {"a", "x y"}, {"A", "&"}, {"a", "="}}),
            "A=%26&a=%3D&a=x%20y&b=2");
  // The byte 0xC3 is above "z", its encoding below.
  EXPECT_EQ(query_text({{"z", ""}, {"\xc3\xbc", ""}}), "%C3%BC=&z=");
  EXPECT_EQ(query_text({}), "");
}

}  // namespace
}  // namespace wmtp::http
