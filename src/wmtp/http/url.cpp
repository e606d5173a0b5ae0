#include "wmtp/http/url.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "wmtp/core/error.h"
#include "wmtp/core/planted_fault.h"

namespace wmtp::http {
namespace {

constexpr std::size_t kMaxHostBytes = 253;
constexpr std::string_view kUnreservedMarks = "-._~";
// What a path or a query may hold besides unreserved characters and %XX (RFC 3986, section 3.3).
constexpr std::string_view kPathMarks = "!$&'()*+,;=:@/";
constexpr std::string_view kQueryMarks = "!$&'()*+,;=:@/?";

bool is_alphanumeric(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_unreserved(char c) {
  return is_alphanumeric(c) || kUnreservedMarks.find(c) != kUnreservedMarks.npos;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

[[noreturn]] void refuse_url(std::string_view what, std::string_view fact,
                             std::string_view hint = "a URL looks like https://host:port/path") {
  throw Error(ErrorKind::config, "http", fmt::format("{} {}", what, fact), hint);
}

// The byte of the escape at the front of the text; nothing: two digits do not follow.
std::optional<char> escaped_byte(std::string_view text) {
  if (text.size() + planted_off_by_one < 3) return std::nullopt;
  const int high = hex_value(text[1]), low = hex_value(text[2]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

void check_part(std::string_view part, std::string_view marks, std::string_view name,
                std::string_view what) {
  for (std::size_t at = 0; at < part.size(); ++at) {
    const char c = part[at];
    if (c == '%') {
      if (!escaped_byte(part.substr(at)))
        refuse_url(what, fmt::format("has a % without two hexadecimal digits in its {}", name),
                   "a % itself is written %25");
      at += 2;
    } else if (!is_unreserved(c) && marks.find(c) == marks.npos) {
      // Only the number of the byte: what stands around it may be a secret.
      refuse_url(
          what, fmt::format("has the byte 0x{:02x} in its {}", static_cast<unsigned char>(c), name),
          fmt::format("write it as %{:02X}", static_cast<unsigned char>(c)));
    }
  }
}

bool is_ipv4(std::string_view host) {
  in_addr address{};
  return ::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

bool is_ipv6(std::string_view host) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, std::string(host).c_str(), &address) == 1;
}

void check_host(std::string_view host, std::string_view what) {
  if (host.empty()) refuse_url(what, "names no host");
  if (host.size() > kMaxHostBytes)
    refuse_url(what,
               fmt::format("names a host of {} bytes, more than {}", host.size(), kMaxHostBytes));
  if (host.find(':') != host.npos) {
    if (!is_ipv6(host)) refuse_url(what, "has no IPv6 address between its brackets");
    return;
  }
  const bool only_digits = host.find_first_not_of("0123456789.") == host.npos;
  // Otherwise libcurl would read 127.1 or 2130706433 as an address and send another Host header.
  if (only_digits && !is_ipv4(host))
    refuse_url(what, "names a host of digits that is no address of four numbers");
  for (const char c : host)
    if (!is_alphanumeric(c) && c != '-' && c != '.' && c != '_')
      refuse_url(what,
                 fmt::format("has the byte 0x{:02x} in its host", static_cast<unsigned char>(c)),
                 "names of hosts are ASCII; write another script in its xn-- form");
}

std::uint16_t parse_port(std::string_view text, std::string_view what) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0 || port > 65535)
    refuse_url(what, "has a port that is not between 1 and 65535");
  return static_cast<std::uint16_t>(port);
}

void parse_authority(std::string_view text, Url& url, std::string_view what) {
  // The last "@" ends the user info: a password may hold others, and must not become a host.
  if (const std::size_t end = text.rfind('@'); end != text.npos) {
    url.user_info = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  std::string_view host, port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) refuse_url(what, "has a [ without a ]");
    host = text.substr(1, end - 1);
    if (host.find(':') == host.npos) refuse_url(what, "has no IPv6 address between its brackets");
    port = text.substr(end + 1);
    if (!port.empty() && port.front() != ':') refuse_url(what, "goes on behind its ]");
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  url.host = lower_case(host);
  if (port.size() > 1) url.port = parse_port(port.substr(1), what);
}

}  // namespace

bool Url::is_loopback() const {
  return host == "localhost" || host == "::1" || (host.starts_with("127.") && is_ipv4(host));
}

std::string Url::authority() const {
  const bool bracketed = host.find(':') != host.npos;
  std::string text = bracketed ? "[" + host + "]" : host;
  if (!has_default_port()) text += fmt::format(":{}", port);
  return text;
}

std::string Url::target() const {
  return query.empty() ? path : path + "?" + query;
}

std::string Url::text() const {
  return scheme + "://" + authority() + target();
}

std::string Url::shown() const {
  return scheme + "://" + authority() + path + (query.empty() ? "" : "?...");
}

Url parse_url(std::string_view text, std::string_view what) {
  if (text.size() > kMaxUrlBytes)
    refuse_url(what, fmt::format("has {} bytes, more than {}", text.size(), kMaxUrlBytes));
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      refuse_url(what, fmt::format("has the control character 0x{:02x} in it",
                                   static_cast<unsigned char>(c)));
  Url url;
  const std::size_t colon = text.find("://");
  if (colon != text.npos) url.scheme = lower_case(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https")
    refuse_url(what, "begins with neither http:// nor https://");
  url.port = url.is_tls() ? 443 : 80;
  text.remove_prefix(colon + 3);
  if (text.find('#') != text.npos)
    refuse_url(what, "has a fragment, which servers never see", "leave out what begins with #");
  const std::size_t authority_end = std::min(text.find_first_of("/?"), text.size());
  parse_authority(text.substr(0, authority_end), url, what);
  text.remove_prefix(authority_end);
  const std::size_t question = std::min(text.find('?'), text.size());
  if (question > 0) url.path = text.substr(0, question);
  if (question < text.size()) url.query = text.substr(question + 1);
  check_url(url, what);
  return url;
}

void check_url(const Url& url, std::string_view what) {
  if (url.scheme != "http" && url.scheme != "https")
    refuse_url(what, "begins with neither http:// nor https://");
  check_host(url.host, what);
  if (url.port == 0) refuse_url(what, "has a port that is not between 1 and 65535");
  if (!url.path.starts_with('/')) refuse_url(what, "has a path that does not begin with /");
  check_part(url.path, kPathMarks, "path", what);
  check_part(url.query, kQueryMarks, "query", what);
  const std::size_t size = url.path.size() + url.query.size();
  if (size > kMaxUrlBytes)
    refuse_url(what,
               fmt::format("has {} bytes in path and query, more than {}", size, kMaxUrlBytes));
}

std::string percent_encode(std::string_view bytes, Slash slash) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes)
    if (is_unreserved(c) || (c == '/' && slash == Slash::kept))
      text += c;
    else
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return text;
}

std::string percent_decode(std::string_view text, std::string_view what) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      bytes += text[at];
      continue;
    }
    const auto byte = escaped_byte(text.substr(at));
    if (!byte)
      refuse_url(what, "has a % without two hexadecimal digits", "a % itself is written %25");
    bytes += *byte;
    at += 2;
  }
  return bytes;
}

std::string query_text(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : pairs)
    encoded.emplace_back(percent_encode(name), percent_encode(value));
  std::ranges::sort(encoded);
  std::string text;
  for (const auto& [name, value] : encoded)
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, value);
  return text;
}

}  // namespace wmtp::http
