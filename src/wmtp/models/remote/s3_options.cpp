#include "wmtp/models/remote/s3_options.h"

#include "wmtp/s3/location.h"

namespace wmtp::models {
namespace {

s3::Addressing addressing_of(config::AutoBool path_style) {
  switch (path_style) {
    case config::AutoBool::yes:
      return s3::Addressing::path;
    case config::AutoBool::no:
      return s3::Addressing::virtual_host;
    case config::AutoBool::automatic:
      break;
  }
  return s3::Addressing::automatic;
}

s3::Checksum checksum_of(config::S3Checksum checksum) {
  switch (checksum) {
    case config::S3Checksum::crc32c:
      return s3::Checksum::crc32c;
    case config::S3Checksum::none:
      return s3::Checksum::none;
    case config::S3Checksum::md5:
      break;
  }
  return s3::Checksum::md5;
}

}  // namespace

s3::Options s3_options(const config::S3& section, const http::Environment& environment) {
  s3::Options options;
  options.bucket = section.bucket;
  options.prefix = section.prefix;
  options.endpoint = section.endpoint;
  options.region = section.region;
  options.profile = section.profile;
  options.addressing = addressing_of(section.path_style);
  options.part_bytes = static_cast<std::uint64_t>(section.part_size_mib) * s3::kMebibyte;
  options.concurrency = static_cast<int>(section.concurrency);
  options.retries = static_cast<int>(section.retries);
  options.checksum = checksum_of(section.checksum);
  options.allow_http = section.allow_http;
  options.http.env = environment;
  return options;
}

s3::Options s3_options_at(std::string_view uri, const config::S3& section,
                          const http::Environment& environment) {
  const s3::S3Uri named = s3::parse_s3_uri(uri);
  s3::Options options = s3_options(section, environment);
  options.bucket = named.bucket;
  options.prefix = named.prefix;
  return options;
}

}  // namespace wmtp::models
