// Where objects are: the bucket, its server, and how a key becomes a URL.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/http/url.h"
#include "wmtp/s3/keys/credential_sources.h"
#include "wmtp/s3/options.h"

namespace wmtp::s3 {

// s3://bucket/prefix. Error config where the text is none.
struct S3Uri {
  std::string bucket, prefix;
};
bool is_s3_uri(std::string_view text);
S3Uri parse_s3_uri(std::string_view text);

// Error config with the rule that is broken: 3 to 63 of a-z, 0-9, "-" and ".", a letter or digit at
// both ends, ...
void check_bucket_name(std::string_view name);

struct Location {
  std::string bucket;
  std::string prefix;  // without "/" at its ends; empty: the whole bucket
  std::string region;
  http::Url endpoint;  // scheme, host, port and the path before the bucket, without "/" at its end
  bool is_path_style = true;

  // The key of a name below the prefix. Error config where it is no key: over 1024 bytes, no UTF-8,
  // with a NUL.
  std::string key_of(std::string_view name) const;
  // And back. REQUIRES a key that begins with the prefix.
  std::string name_of(std::string_view key) const;
  // An empty key: the bucket itself.
  http::Url url_of(std::string_view key,
                   const std::vector<std::pair<std::string, std::string>>& query = {}) const;
  std::string shown(std::string_view key) const;  // s3://bucket/key, for people
};

// From options, environment and profile, in this order. Error config where one of them is none.
Location resolve_location(const Options& options, const Profile& profile);

}  // namespace wmtp::s3
