// Times as S3, STS and the metadata services write them.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace wmtp::s3 {

// Seconds since 1970 of 2026-11-16T10:00:00Z, with or without a fraction of a second; nothing: it
// is none.
std::optional<std::int64_t> parse_iso_time(std::string_view text);

}  // namespace wmtp::s3
