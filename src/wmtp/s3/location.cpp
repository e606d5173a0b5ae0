#include "wmtp/s3/location.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/utf8.h"

namespace wmtp::s3 {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::size_t kMaxKeyBytes = 1024;

bool is_bucket_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

std::string without_slashes(std::string_view text) {
  while (text.starts_with('/')) text.remove_prefix(1);
  while (text.ends_with('/')) text.remove_suffix(1);
  return std::string(text);
}

// The rule that a name breaks, or "".
std::string_view broken_bucket_rule(std::string_view name) {
  if (name.size() < 3 || name.size() > 63) return "has less than 3 or more than 63 characters";
  for (const char c : name)
    if (!is_bucket_letter(c) && c != '-' && c != '.')
      return c >= 'A' && c <= 'Z' ? "has a capital letter in it"
                                  : "has more than a-z, 0-9, \"-\" and \".\" in it";
  if (!is_bucket_letter(name.front()) || !is_bucket_letter(name.back()))
    return "does not begin and end with a letter or a digit";
  if (name.find("..") != name.npos || name.find(".-") != name.npos || name.find("-.") != name.npos)
    return "has a \".\" beside another \".\" or a \"-\"";
  if (name.find_first_not_of("0123456789.") == name.npos && std::ranges::count(name, '.') == 3)
    return "looks like an IP address";
  if (name.starts_with("xn--") || name.starts_with("sthree-") || name.ends_with("-s3alias") ||
      name.ends_with("--ol-s3"))
    return "begins or ends with a word that AWS keeps for itself";
  return "";
}

std::string first_of(std::initializer_list<std::string> texts) {
  for (const std::string& text : texts)
    if (!text.empty()) return text;
  return "";
}

// It becomes a part of a host name.
void check_region(const std::string& region) {
  const bool is_word = region.size() <= 64 && std::ranges::all_of(region, [](char c) {
                         return is_bucket_letter(c) || c == '-';
                       });
  if (!is_word)
    throw Error(ErrorKind::config, "s3",
                fmt::format("\"{}\" is no name of a region", printable(region)),
                "like us-east-1: letters, digits and \"-\"");
}

http::Url custom_endpoint(const std::string& text) {
  http::Url url = http::parse_url(text, "the endpoint of S3");
  if (!url.user_info.empty())
    throw Error(ErrorKind::config, "s3", "the endpoint of S3 has a user name or password in it",
                "keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from a profile");
  if (!url.query.empty())
    throw Error(ErrorKind::config, "s3", "the endpoint of S3 has a query in it");
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

}  // namespace

bool is_s3_uri(std::string_view text) {
  return text.starts_with(kScheme);
}

S3Uri parse_s3_uri(std::string_view text) {
  if (!is_s3_uri(text))
    throw Error(ErrorKind::config, "s3",
                fmt::format("\"{}\" does not begin with s3://", printable(text)));
  text.remove_prefix(kScheme.size());
  const std::size_t slash = std::min(text.find('/'), text.size());
  S3Uri uri{std::string(text.substr(0, slash)), without_slashes(text.substr(slash))};
  check_bucket_name(uri.bucket);
  return uri;
}

void check_bucket_name(std::string_view name) {
  if (name.empty())
    throw Error(ErrorKind::config, "s3", "no bucket is named",
                "set storage.s3.bucket, or name it as in s3://bucket/prefix");
  if (const std::string_view rule = broken_bucket_rule(name); !rule.empty())
    throw Error(ErrorKind::config, "s3",
                fmt::format("\"{}\" is no name of a bucket: it {}", printable(name), rule),
                "name the bucket alone, without s3:// and without a path");
}

std::string Location::key_of(std::string_view name) const {
  std::string key = prefix.empty() ? std::string(name)
                    : name.empty() ? prefix + "/"
                                   : fmt::format("{}/{}", prefix, name);
  const char* fault = key.size() > kMaxKeyBytes             ? "has more than 1024 bytes"
                      : find_invalid_utf8(key)              ? "is no UTF-8"
                      : key.find('\0') != std::string::npos ? "has a NUL in it"
                                                            : nullptr;
  if (fault)
    throw Error(ErrorKind::config, "s3", fmt::format("the key \"{}\" {}", printable(key), fault),
                "S3 has no such keys");
  return key;
}

std::string Location::name_of(std::string_view key) const {
  const std::size_t size = prefix.empty() ? 0 : prefix.size() + 1;
  WMTP_CHECK(key.starts_with(prefix) && key.size() >= size, "a key outside of the prefix");
  return std::string(key.substr(size));
}

http::Url Location::url_of(std::string_view key,
                           const std::vector<std::pair<std::string, std::string>>& query) const {
  http::Url url = endpoint;
  if (is_path_style)
    url.path += "/" + bucket;
  else
    url.host = bucket + "." + url.host;
  // "/bucket" would do for the bucket itself with path style; the root of a host is "/".
  if (!key.empty() || !is_path_style) url.path += "/";
  url.path += http::percent_encode(key, http::Slash::kept);
  url.query = http::query_text(query);
  return url;
}

std::string Location::shown(std::string_view key) const {
  return fmt::format("s3://{}/{}", bucket, printable(key));
}

Location resolve_location(const Options& options, const Profile& profile) {
  const http::Environment& env = options.http.env;
  check_bucket_name(options.bucket);
  Location location{options.bucket, without_slashes(options.prefix), {}, {}, true};
  const std::string given =
      first_of({options.endpoint, variable(env, "AWS_ENDPOINT_URL_S3"),
                variable(env, "AWS_ENDPOINT_URL"), profile.find("endpoint_url")});
  location.region = first_of({options.region, variable(env, "AWS_REGION"),
                              variable(env, "AWS_DEFAULT_REGION"), profile.find("region")});
  if (!given.empty()) location.endpoint = custom_endpoint(given);
  const bool is_r2 = location.endpoint.host.ends_with(".r2.cloudflarestorage.com");
  if (location.region.empty()) location.region = is_r2 ? "auto" : "us-east-1";
  check_region(location.region);
  if (given.empty())
    location.endpoint = custom_endpoint(
        fmt::format("https://s3.{}.{}", location.region, aws_domain(location.region)));
  // A certificate for *.s3.REGION.amazonaws.com holds for one word before it, not for two.
  const bool has_dots = location.bucket.find('.') != std::string::npos;
  location.is_path_style =
      options.addressing == Addressing::path ||
      (options.addressing == Addressing::automatic && (!given.empty() || has_dots));
  if (!location.endpoint.is_tls() && !location.endpoint.is_loopback() && !options.allow_http)
    throw Error(ErrorKind::config, "s3",
                fmt::format("signed requests would go over plain http to {}",
                            location.endpoint.authority()),
                "use https, or set storage.s3.allow_http where the network is trusted");
  return location;
}

}  // namespace wmtp::s3
