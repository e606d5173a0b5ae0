#include "fuzz/fuzz.h"
#include "wmtp/http/url.h"

WMTP_FUZZ_TARGET(url) {
  using namespace wmtp;
  const std::string_view text = fuzz::text_of(bytes);
  fuzz::require(http::percent_decode(http::percent_encode(text), "text") == text,
                "bytes that do not come back from their encoding");
  const http::Url url = http::parse_url(text, "url");
  const std::string sent = url.text();
  for (const char c : sent)
    fuzz::require(c > ' ' && c < 0x7F, "a byte that cannot stand in a request line");
  const http::Url again = http::parse_url(sent, "url");
  fuzz::require(again.user_info.empty(), "user info that is sent");
  fuzz::require(again.text() == sent && again.host == url.host && again.port == url.port &&
                    again.target() == url.target(),
                "a URL that does not come back");
  fuzz::require(url.shown().find('?') == std::string::npos || url.shown().ends_with("?..."),
                "a query that is shown");
}
