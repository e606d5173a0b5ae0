#include "wmtp/s3/part_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/http/headers.h"

namespace wmtp::s3 {
namespace {

constexpr std::uint64_t kPlannedParts = 9000;
constexpr std::size_t kMd5HexBytes = 32;

}  // namespace

int PartPlan::num_parts() const {
  return static_cast<int>(std::max<std::uint64_t>(1, (file_bytes + part_bytes - 1) / part_bytes));
}

http::ByteRange PartPlan::range_of(int number) const {
  const std::uint64_t first = static_cast<std::uint64_t>(number - 1) * part_bytes;
  return {first, std::min(part_bytes, file_bytes - first)};
}

PartPlan plan_parts(std::uint64_t file_bytes, std::uint64_t configured_bytes) {
  if (file_bytes > kMostObjectBytes)
    throw Error(ErrorKind::config, "s3",
                fmt::format("a file of {} bytes, and objects of S3 have at most {}", file_bytes,
                            kMostObjectBytes),
                "write it in several files");
  const std::uint64_t least = (file_bytes + kPlannedParts - 1) / kPlannedParts;
  return {file_bytes, std::max(configured_bytes, least)};
}

std::string composite_etag(std::span<const Md5Digest> parts) {
  std::string digests;
  for (const Md5Digest& part : parts) digests.append(part.begin(), part.end());
  return fmt::format("{}-{}", to_hex(md5(digests)), parts.size());
}

bool is_md5_etag(std::string_view etag) {
  return etag.size() == kMd5HexBytes &&
         etag.find_first_not_of("0123456789abcdefABCDEF") == etag.npos;
}

std::optional<int> num_parts_of_etag(std::string_view etag) {
  if (etag.size() <= kMd5HexBytes + 1 || etag[kMd5HexBytes] != '-' ||
      !is_md5_etag(etag.substr(0, kMd5HexBytes)))
    return std::nullopt;
  const auto number = http::parse_decimal(etag.substr(kMd5HexBytes + 1));
  if (!number || *number < 1 || *number > 10'000) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace wmtp::s3
