// URLs of http and https servers, read strictly: what is accepted goes over the wire as it was
// written, byte for byte, so a signature over it holds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wmtp::http {

inline constexpr std::size_t kMaxUrlBytes = 8192;

struct Url {
  std::string scheme;      // "http" or "https"
  std::string host;        // lower case; an IPv6 address without its brackets
  std::uint16_t port = 0;  // that of the scheme where none was written
  std::string path = "/";  // percent-encoded
  std::string query;       // percent-encoded, without the "?"; an empty one is none
  std::string user_info;   // what stood before "@": a secret, in none of the texts below

  bool is_tls() const { return scheme == "https"; }
  bool has_default_port() const { return port == (is_tls() ? 443 : 80); }
  // localhost, 127.0.0.0/8, ::1: what is sent there does not leave the machine.
  bool is_loopback() const;
  // The Host header: brackets around IPv6, a port if it is not the default.
  std::string authority() const;
  std::string target() const;  // path and query: the second word of the request line
  std::string text() const;    // the whole URL but for the user info
  // For people: scheme, authority and path, nothing that may be a secret ("?..." stands for the
  // query).
  std::string shown() const;
};

// Error config where `text` is no URL of this kind. `what` names it ("mlflow.tracking_uri"); the
// text itself is not repeated, as a password may be in it.
Url parse_url(std::string_view text, std::string_view what);

// The same rules for a URL that was put together; `what` as above. Its user info is not looked at.
void check_url(const Url& url, std::string_view what);

// Percent-encoding as SigV4 wants it: every byte but A-Z a-z 0-9 - . _ ~ as %XX in capitals.
enum class Slash { encoded, kept };
std::string percent_encode(std::string_view bytes, Slash slash = Slash::encoded);
// Error config naming `what` where a "%" is not followed by two hexadecimal digits.
std::string percent_decode(std::string_view text, std::string_view what);

// Pairs of names and values (both as they are) as a query: encoded, sorted by encoded name and
// value, "name=" for an empty value. SigV4's canonical query, and what is to be sent.
std::string query_text(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace wmtp::http
