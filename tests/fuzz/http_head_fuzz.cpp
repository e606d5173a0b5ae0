#include "fuzz/fuzz.h"
#include "wmtp/core/error.h"
#include "wmtp/http/http_date.h"
#include "wmtp/http/retry.h"

WMTP_FUZZ_TARGET(http_head) {
  using namespace wmtp;
  std::string_view rest = fuzz::text_of(bytes);
  http::HeadReader reader;
  while (!rest.empty() && !reader.is_complete()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const std::string_view fault = reader.take(rest.substr(0, end));
    if (!fault.empty()) throw Error(ErrorKind::data, "http", fault);
    rest.remove_prefix(end);
  }
  if (!reader.is_complete()) throw Error(ErrorKind::data, "http", "ends inside");
  fuzz::require(reader.status() >= 100 && reader.status() <= 999, "a status of three digits");
  fuzz::require(!reader.is_too_large(), "a head within its limit");
  for (const auto& [name, value] : reader.headers().fields()) {
    fuzz::require(!name.empty() && reader.headers().has(name), "a header that is found");
    http::parse_http_date(value);
    if (const auto range = http::parse_content_range(value))
      fuzz::require(range->first <= range->last && (!range->total || range->last < *range->total),
                    "a range that lies within its whole");
  }
  if (const auto wait = http::retry_after(reader.headers()))
    fuzz::require(wait->count() >= 0, "a wait that is not negative");
}
