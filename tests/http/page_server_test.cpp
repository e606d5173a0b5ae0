#include "wmtp/http/page_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "support/expect_error.h"

namespace wmtp::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

int status_of(std::string_view head) {
  return judge_request(head).status;
}

TEST(PageRequest, OnlyTheOnePageIsThere) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET / HTTP/1.0\nhost: 127.0.0.1:8000\nAccept: */*\n\n"), 200);
  EXPECT_TRUE(judge_request("HEAD / HTTP/1.1\r\nHost: [::1]:1\r\n\r\n").without_body);
  for (const char* target :
       {"/favicon.ico", "/?", "/../etc/passwd", "//", "/%2e%2e/x", "*", "http://localhost/", "/#x"})
    EXPECT_EQ(status_of(std::string("GET ") + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404)
        << target;
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get", "GETX"})
    EXPECT_EQ(status_of(std::string(method) + " / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405)
        << method;
}

TEST(PageRequest, ForeignNamesOfTheMachineAreRefused) {
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2",
        "localhost:80x", "localhost:", "localhost:99999", "[::1", "0.0.0.0", "", "user@localhost"})
    EXPECT_EQ(status_of(std::string("GET / HTTP/1.1\r\nHost: ") + host + "\r\n\r\n"), 403) << host;
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: LocalHost:9000\r\n\r\n"), 200);
}

TEST(PageRequest, WhatIsNoRequestIsSaidToBeNone) {
  for (const char* head :
       {"\r\n\r\n", "GET /\r\nHost: localhost\r\n\r\n", "GET / HTTP/2\r\nHost: localhost\r\n\r\n",
        "GET  HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n",
        "GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n"})
    EXPECT_EQ(status_of(head), 400) << head;
}

TEST(LoopbackAddress, AnythingElseIsRefusedByName) {
  EXPECT_EQ(parse_loopback("127.0.0.1:8000", "--serve").port, 8000);
  EXPECT_FALSE(parse_loopback("localhost:0", "--serve").is_v6);
  EXPECT_TRUE(parse_loopback("[::1]:65535", "--serve").is_v6);
  for (const char* text : {"0.0.0.0:80", "192.168.1.1:80", "example.com:80", ":80", "8000", "",
                           "::1:80", "127.0.0.2:80"})
    EXPECT_WMTP_ERROR(parse_loopback(text, "--serve"), ErrorKind::config,
                      std::string("--serve: \"") + text + "\" is not on this machine's loopback");
  for (const char* port : {"", "x", "65536", "-1", "080000", " 80"})
    EXPECT_WMTP_ERROR(parse_loopback(std::string("127.0.0.1:") + port, "--serve"),
                      ErrorKind::config, "is no port");
}

struct Peer {
  explicit Peer(std::uint16_t port) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in at{.sin_family = AF_INET,
                         .sin_port = htons(port),
                         .sin_addr = {htonl(INADDR_LOOPBACK)},
                         .sin_zero = {}};
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  }
  void say(std::string_view text) const {
    EXPECT_EQ(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
  }
  // All that comes until the server has closed, while that serves.
  std::string heard(PageServer& server) const {
    std::string all;
    for (;;) {
      server.serve(std::chrono::milliseconds(5), -1);
      std::array<char, 4096> buffer{};
      const ssize_t size = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size > 0)
        all.append(buffer.data(), static_cast<std::size_t>(size));
      else if (size == 0 || errno == ECONNRESET)
        return all;
    }
  }
  UniqueFd fd;
};

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST(PageServer, AClientThatSaysNothingIsLetGo) {
  PageServer server({.request_limit = std::chrono::milliseconds(30)});
  const Peer silent(server.port()), halting(server.port());
  halting.say("GET / HTTP/1.1\r\nHost: loc");
  EXPECT_THAT(halting.heard(server), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(silent.heard(server), StartsWith("HTTP/1.1 408 "));
}

TEST(PageServer, ACrowdOfSilentClientsDoesNotKeepOthersOut) {
  PageServer server({.max_clients = 2});
  server.set_page("<p>here</p>");
  std::vector<Peer> crowd;
  for (int i = 0; i < 5; ++i) crowd.emplace_back(server.port());
  const Peer asking(server.port());
  asking.say(kGet);
  EXPECT_THAT(asking.heard(server), HasSubstr("\r\n\r\n<p>here</p>"));
  EXPECT_EQ(crowd[0].heard(server), "") << "the oldest gave way";
}

TEST(PageServer, AHeadWithoutEndIsRefusedAndTheAnswerArrives) {
  PageServer server({});
  const Peer endless(server.port());
  endless.say("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x'));
  EXPECT_THAT(endless.heard(server), StartsWith("HTTP/1.1 431 "));
}

TEST(PageServer, APortThatIsTakenIsNamed) {
  const PageServer server({});
  EXPECT_WMTP_ERROR(PageServer({.address = {false, server.port()}}), ErrorKind::config,
                    "cannot listen on 127.0.0.1:" + std::to_string(server.port()));
}

}  // namespace
}  // namespace wmtp::http
