#include "wmtp/http/page_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/http/headers.h"

namespace wmtp::http {
namespace {

// The next line without its end; the rest stays in `text`. Nothing where no line ends.
std::optional<std::string_view> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_port(std::string_view text) {
  const auto port = parse_decimal(text);
  return port && *port <= 65535 && text.size() <= 5;
}

// A loopback name with or without a port, whichever: a tunnel has one of its own.
bool is_loopback_host(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"})
    if (host.size() >= name.size() && same_header_name(host.substr(0, name.size()), name)) {
      const std::string_view rest = host.substr(name.size());
      if (rest.empty() || (rest.starts_with(':') && is_port(rest.substr(1)))) return true;
    }
  return false;
}

struct RequestLine {
  std::string_view method, target;
};

std::optional<RequestLine> parse_request_line(std::string_view line) {
  const std::size_t first = line.find(' '), second = line.rfind(' ');
  if (first == line.npos || first == 0 || second <= first + 1) return std::nullopt;
  const std::string_view version = line.substr(second + 1);
  const RequestLine request{line.substr(0, first), line.substr(first + 1, second - first - 1)};
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f; };
  if ((version != "HTTP/1.1" && version != "HTTP/1.0") ||
      !std::ranges::all_of(request.method, is_plain) ||
      !std::ranges::all_of(request.target, is_plain))
    return std::nullopt;
  return request;
}

// The one Host of the fields; nothing where there is not exactly one, or a line is no field.
std::optional<std::string> host_of(std::string_view fields) {
  Headers headers;
  int num_hosts = 0;
  while (const auto line = take_line(fields)) {
    if (line->empty()) return num_hosts == 1 ? headers.find("Host") : std::nullopt;
    const std::size_t colon = line->find(':');
    if (colon == line->npos) return std::nullopt;
    const std::string_view name = line->substr(0, colon);
    try {
      headers.add(name, line->substr(colon + 1));
    } catch (const Error&) {
      return std::nullopt;
    }
    num_hosts += same_header_name(name, "Host") ? 1 : 0;
  }
  return std::nullopt;
}

}  // namespace

PageRequest judge_request(std::string_view head) {
  const auto line = take_line(head);
  const auto request = line ? parse_request_line(*line) : std::nullopt;
  const auto host = request ? host_of(head) : std::nullopt;
  if (!host) return {400, false};
  const bool without_body = request->method == "HEAD";
  if (!is_loopback_host(*host)) return {403, without_body};
  if (request->method != "GET" && !without_body) return {405, false};
  return {request->target == "/" ? 200 : 404, without_body};
}

std::string_view reason_of(int status) {
  struct Reason {
    int status;
    std::string_view text;
  };
  constexpr std::array<Reason, 7> kReasons{{{200, "OK"},
                                            {400, "Bad Request"},
                                            {403, "Forbidden"},
                                            {404, "Not Found"},
                                            {405, "Method Not Allowed"},
                                            {408, "Request Timeout"},
                                            {431, "Request Header Fields Too Large"}}};
  const auto found =
      std::ranges::find_if(kReasons, [&](const Reason& reason) { return reason.status == status; });
  WMTP_CHECK(found != kReasons.end(), "a status without a name");
  return found->text;
}

LoopbackAddress parse_loopback(std::string_view text, std::string_view what) {
  const std::size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, colon);
  const std::string_view port = colon == text.npos ? "" : text.substr(colon + 1);
  const bool is_v4 = host == "127.0.0.1" || host == "localhost";
  if (colon == text.npos || (!is_v4 && host != "[::1]"))
    throw Error(ErrorKind::config, "http",
                fmt::format("{}: \"{}\" is not on this machine's loopback", what, printable(text)),
                "127.0.0.1:PORT, localhost:PORT or [::1]:PORT; from elsewhere `ssh -L "
                "8000:127.0.0.1:8000 HOST` leads there");
  if (!is_port(port))
    throw Error(ErrorKind::config, "http",
                fmt::format("{}: \"{}\" is no port", what, printable(port)),
                "0 to 65535; 0 takes a free one");
  return {!is_v4, static_cast<std::uint16_t>(*parse_decimal(port))};
}

}  // namespace wmtp::http
