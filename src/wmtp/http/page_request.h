// Requests to a server that has one page for this machine alone: which are answered, and how.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace wmtp::http {

inline constexpr std::size_t kMaxRequestBytes = std::size_t{8} << 10;  // of a request's head

struct PageRequest {
  int status = 400;           // 200, or why there is no page
  bool without_body = false;  // HEAD
};

// Judges the head of a request, its empty line included. 400: it is no HTTP/1 request with one
// Host. 403: Host is no name of this machine's loopback, so that a foreign web page which made its
// own name lead here (DNS rebinding) reads nothing. 405: neither GET nor HEAD. 404: not "/".
PageRequest judge_request(std::string_view head);
// What a status is called: "Not Found".
std::string_view reason_of(int status);

// Where such a server listens.
struct LoopbackAddress {
  bool is_v6 = false;
  std::uint16_t port = 0;  // 0: a free one
};
// "127.0.0.1:8000", "localhost:8000" or "[::1]:0"; Error config names anything else, and `what` it
// was given for.
LoopbackAddress parse_loopback(std::string_view text, std::string_view what);

}  // namespace wmtp::http
