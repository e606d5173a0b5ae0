#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/remote/model_copy.h"
#include "wmtp/models/remote/s3_options.h"

namespace wmtp::models {
namespace {

TEST(S3Options, AreThoseOfTheSection) {
  config::S3 section;
  section.bucket = "my-bucket";
  section.prefix = "a/b";
  section.endpoint = "https://host";
  section.region = "eu-west-1";
  section.profile = "work";
  section.path_style = config::AutoBool::no;
  section.part_size_mib = 32;
  section.concurrency = 7;
  section.retries = 3;
  section.checksum = config::S3Checksum::crc32c;
  section.allow_http = true;
  const s3::Options options = s3_options(section, comm::environment_of({{"X", "y"}}));
  EXPECT_EQ(options.bucket, "my-bucket");
  EXPECT_EQ(options.prefix, "a/b");
  EXPECT_EQ(options.endpoint, "https://host");
  EXPECT_EQ(options.region, "eu-west-1");
  EXPECT_EQ(options.profile, "work");
  EXPECT_EQ(options.addressing, s3::Addressing::virtual_host);
  EXPECT_EQ(options.part_bytes, 32u << 20);
  EXPECT_EQ(options.concurrency, 7);
  EXPECT_EQ(options.retries, 3);
  EXPECT_EQ(options.checksum, s3::Checksum::crc32c);
  EXPECT_TRUE(options.allow_http);
  EXPECT_EQ(options.http.env("X"), "y");
}

TEST(S3Options, OfAUriHaveItsBucketAndPrefix) {
  config::S3 section;
  section.bucket = "other";
  section.retries = 3;
  const s3::Options options = s3_options_at("s3://my-bucket/a/b/", section, {});
  EXPECT_EQ(options.bucket, "my-bucket");
  EXPECT_EQ(options.prefix, "a/b");
  EXPECT_EQ(options.retries, 3);
  EXPECT_EQ(s3_options_at("s3://my-bucket", section, {}).prefix, "");
  EXPECT_WMTP_ERROR(s3_options_at("s3://My_bucket/x", section, {}), ErrorKind::config,
                    "no name of a bucket");
  EXPECT_WMTP_ERROR(s3_options_at("/data/x", section, {}), ErrorKind::config,
                    "does not begin with s3://");
}

TEST(FileSystems, PathsOfABucketShareOne) {
  use_s3_settings({}, comm::environment_of({{"AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9"}}));
  EXPECT_EQ(files_of("s3://my-bucket/a"), files_of("s3://my-bucket/b/c"));
  EXPECT_NE(files_of("s3://my-bucket/a"), files_of("s3://another/a"));
  EXPECT_EQ(files_of("/data/a"), files_of("b"));
  EXPECT_TRUE(is_remote("s3://my-bucket/a"));
  EXPECT_FALSE(is_remote("/data/s3://x"));
  EXPECT_WMTP_ERROR(files_of("s3://"), ErrorKind::config, "no bucket is named");
}

TEST(FileSystems, UrisSurviveBeingPaths) {
  const std::filesystem::path folder = plain_remote("s3://my-bucket/a/");
  EXPECT_EQ(folder.string(), "s3://my-bucket/a");
  EXPECT_EQ((folder / "x-3steps").string(), "s3://my-bucket/a/x-3steps");
  EXPECT_EQ((folder / "x-3steps").parent_path().string(), "s3://my-bucket/a");
  EXPECT_EQ(folder.parent_path().string(), "s3://my-bucket");
  EXPECT_EQ(plain_remote("s3://my-bucket/").string(), "s3://my-bucket");
  EXPECT_EQ(plain_remote("runs/demo/").string(), "runs/demo/");
}

TEST(FileSystems, ADiskIsAskedAsBefore) {
  const test::TempDir folder;
  test::write_file(folder / "a", "x");
  EXPECT_TRUE(is_there(folder / "a"));
  EXPECT_FALSE(is_folder(folder / "a"));
  EXPECT_TRUE(is_folder(folder.path()));
  EXPECT_FALSE(is_there(folder / "b"));
  const std::string path = (folder / "a").string();
  EXPECT_EQ(locate(path, comm::environment_of({})).string(), path);
  EXPECT_EQ(locate("s3://my-bucket/m/", comm::environment_of({})).string(), "s3://my-bucket/m");
}

}  // namespace
}  // namespace wmtp::models
