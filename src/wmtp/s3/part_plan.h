// How a file is cut into parts, and what S3 calls the whole of them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "wmtp/http/message.h"
#include "wmtp/s3/digest.h"
#include "wmtp/s3/options.h"

namespace wmtp::s3 {

inline constexpr std::uint64_t kLeastPartBytes = 5 * kMebibyte, kMostPartBytes = 5120 * kMebibyte;
inline constexpr std::uint64_t kMostObjectBytes = std::uint64_t{5} << 40;  // 5 TiB

// The parts of a file: all of one size but the last, which may be smaller.
struct PartPlan {
  std::uint64_t file_bytes = 0, part_bytes = 0;

  int num_parts() const;                       // at least 1
  http::ByteRange range_of(int number) const;  // from 1 on
};
// Parts of max(configured, ceil(file / 9000)) bytes, so that 10,000 are never reached. Error config
// where the file is larger than any object.
PartPlan plan_parts(std::uint64_t file_bytes, std::uint64_t configured_bytes);

// The ETag of an object that was uploaded in parts: the MD5 of their MD5s, and how many they are.
std::string composite_etag(std::span<const Md5Digest> parts);

bool is_md5_etag(std::string_view etag);                      // 32 hexadecimal digits
std::optional<int> num_parts_of_etag(std::string_view etag);  // of "MD5-N"; nothing: it is none

}  // namespace wmtp::s3
