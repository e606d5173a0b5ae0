#include "wmtp/s3/location.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::s3 {
namespace {

using Variables = std::map<std::string, std::string>;

http::Environment environment(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Location located(Options options, const Variables& variables = {}, const IniSection& profile = {}) {
  options.http.env = environment(variables);
  if (options.bucket.empty()) options.bucket = "my-bucket";
  return resolve_location(options, {.name = "p", .keys = profile});
}

TEST(Location, NamesOfBucketsFollowTheRules) {
  for (const char* name : {"abc", "a-b.c", "123", "my-bucket-1", "1.2.3"})
    EXPECT_NO_THROW(check_bucket_name(name)) << name;
  const auto refused = [](const std::string& name, const std::string& rule) {
    EXPECT_WMTP_ERROR(check_bucket_name(name), ErrorKind::config, rule);
  };
  refused("", "no bucket is named");
  refused("ab", "less than 3 or more than 63");
  refused(std::string(64, 'a'), "less than 3 or more than 63");
  refused("My-bucket", "a capital letter");
  refused("my_bucket", "more than a-z, 0-9");
  refused("s3://bucket", "more than a-z, 0-9");
  refused("bucket/path", "without s3:// and without a path");
  refused("b\u00fccket", "more than a-z, 0-9");
  refused("-bucket", "begin and end with a letter or a digit");
  refused("bucket.", "begin and end with a letter or a digit");
  refused("my..bucket", "beside another");
  refused("my.-bucket", "beside another");
  refused("192.168.0.1", "looks like an IP address");
  refused("xn--bucket", "AWS keeps for itself");
  refused("bucket-s3alias", "AWS keeps for itself");
}

TEST(Location, UrisOfS3) {
  EXPECT_EQ(parse_s3_uri("s3://my-bucket").prefix, "");
  EXPECT_EQ(parse_s3_uri("s3://my-bucket//a/b/").prefix, "a/b");
  EXPECT_EQ(parse_s3_uri("s3://my-bucket/a b").bucket, "my-bucket");
  EXPECT_WMTP_ERROR(parse_s3_uri("s3:///a"), ErrorKind::config, "no bucket is named");
  EXPECT_WMTP_ERROR(parse_s3_uri("http://a"), ErrorKind::config, "does not begin with s3://");
}

TEST(Location, AwsIsAddressedByHostAndOthersByPath) {
  EXPECT_EQ(located({}).url_of("a/b").text(), "https://my-bucket.s3.us-east-1.amazonaws.com/a/b");
  EXPECT_EQ(located({.region = "cn-north-1"}).url_of("").text(),
            "https://my-bucket.s3.cn-north-1.amazonaws.com.cn/");
  EXPECT_EQ(located({.addressing = Addressing::path}).url_of("").text(),
            "https://s3.us-east-1.amazonaws.com/my-bucket");
  EXPECT_EQ(located({.bucket = "my.bucket"}).url_of("k").text(),
            "https://s3.us-east-1.amazonaws.com/my.bucket/k");
  EXPECT_EQ(located({.endpoint = "https://h:9000/base/"}).url_of("k").text(),
            "https://h:9000/base/my-bucket/k");
  EXPECT_EQ(
      located({.endpoint = "https://h", .addressing = Addressing::virtual_host}).url_of("k").text(),
      "https://my-bucket.h/k");
}

TEST(Location, KeysAreEncodedOnceAndQueriesSorted) {
  const Location location = located({.endpoint = "https://h"});
  EXPECT_EQ(
      location.url_of("a b+%/\u00fc=&~.", {{"uploadId", "x/y"}, {"partNumber", "1"}}).target(),
      "/my-bucket/a%20b%2B%25/%C3%BC%3D%26~.?partNumber=1&uploadId=x%2Fy");
  EXPECT_EQ(location.url_of("k", {{"uploads", ""}}).target(), "/my-bucket/k?uploads=");
}

TEST(Location, RegionAndEndpointComeFromTheFirstPlaceThatHasThem) {
  const Variables variables = {{"AWS_REGION", "r1"},
                               {"AWS_DEFAULT_REGION", "r2"},
                               {"AWS_ENDPOINT_URL_S3", "https://e1"},
                               {"AWS_ENDPOINT_URL", "https://e2"}};
  const IniSection profile = {{"region", "r3"}, {"endpoint_url", "https://e3"}};
  EXPECT_EQ(located({.endpoint = "https://e0", .region = "r0"}, variables, profile).region, "r0");
  EXPECT_EQ(located({.endpoint = "https://e0"}, variables, profile).endpoint.host, "e0");
  EXPECT_EQ(located({}, variables, profile).region, "r1");
  EXPECT_EQ(located({}, variables, profile).endpoint.host, "e1");
  EXPECT_EQ(located({}, {{"AWS_DEFAULT_REGION", "r2"}, {"AWS_ENDPOINT_URL", "https://e2"}}, profile)
                .url_of("")
                .text(),
            "https://e2/my-bucket");
  EXPECT_EQ(located({}, {}, profile).region, "r3");
  EXPECT_EQ(located({}, {}, profile).endpoint.host, "e3");
  EXPECT_EQ(located({.endpoint = "https://x.r2.cloudflarestorage.com"}).region, "auto");
  EXPECT_WMTP_ERROR(located({.region = "a/b"}), ErrorKind::config, "no name of a region");
}

TEST(Location, PlainHttpToOtherMachinesIsRefused) {
  EXPECT_NO_THROW(located({.endpoint = "http://127.0.0.1:9000"}));
  EXPECT_WMTP_ERROR(located({.endpoint = "http://minio:9000"}), ErrorKind::config,
                    "plain http to minio:9000");
  EXPECT_NO_THROW(located({.endpoint = "http://minio:9000", .allow_http = true}));
  EXPECT_WMTP_ERROR(located({.endpoint = "https://user:canary@h"}), ErrorKind::config,
                    "a user name or password");
}

TEST(Location, NamesAndKeysBelowThePrefix) {
  const Location location = located({.prefix = "/runs/x/"});
  EXPECT_EQ(location.key_of("a/b"), "runs/x/a/b");
  EXPECT_EQ(location.key_of(""), "runs/x/");
  EXPECT_EQ(location.name_of("runs/x/a/b"), "a/b");
  EXPECT_EQ(located({}).key_of("a"), "a");
  EXPECT_EQ(located({}).name_of("a"), "a");
  EXPECT_WMTP_ERROR(location.key_of(std::string(1020, 'a')), ErrorKind::config,
                    "more than 1024 bytes");
  EXPECT_WMTP_ERROR(location.key_of("\xff"), ErrorKind::config, "is no UTF-8");
  EXPECT_WMTP_ERROR(location.key_of(std::string_view("\0", 1)), ErrorKind::config, "a NUL");
}

}  // namespace
}  // namespace wmtp::s3
