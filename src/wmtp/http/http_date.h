// The dates of HTTP headers (RFC 9110, section 5.6.7).
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace wmtp::http {

// Seconds since 1970 of "Sun, 06 Nov 1994 08:49:37 GMT" and of the two obsolete forms
// ("Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"); nothing: it is none of them. The
// name of the day is not compared with the date. Two digits of a year are 1970 to 2069.
std::optional<std::int64_t> parse_http_date(std::string_view text);

}  // namespace wmtp::http
