#include "wmtp/models/remote/file_systems.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/models/remote/s3_options.h"
#include "wmtp/s3/files/s3_file_system.h"
#include "wmtp/s3/location.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;

// The buckets of this process and how they are reached.
class Buckets {
 public:
  std::shared_ptr<storage::FileSystem> open(const std::string& uri) {
    s3::Options options = options_at(uri);
    options.prefix.clear();
    const std::lock_guard lock(mutex_);
    std::shared_ptr<storage::FileSystem>& files = opened_[options.bucket];
    if (!files) files = std::make_shared<s3::S3FileSystem>(s3::open_session(std::move(options)));
    return files;
  }

  s3::Options options_at(const std::string& uri) {
    const std::lock_guard lock(mutex_);
    return s3_options_at(uri, section_, environment_);
  }

  void use(const config::S3& section, const http::Environment& environment) {
    const std::lock_guard lock(mutex_);
    section_ = section;
    environment_ = environment;
    opened_.clear();  // who has one keeps it
  }

 private:
  std::mutex mutex_;
  config::S3 section_;
  http::Environment environment_ = comm::process_environment();
  std::map<std::string, std::shared_ptr<storage::FileSystem>> opened_;
};

Buckets& buckets() {
  static Buckets of_process;
  return of_process;
}

storage::FileKind remote_kind(const fs::path& path) {
  return files_of(path)->status(path).kind;
}

}  // namespace

bool is_remote(const fs::path& path) {
  return s3::is_s3_uri(path.native());
}

std::shared_ptr<storage::FileSystem> files_of(const fs::path& path) {
  if (is_remote(path)) return buckets().open(path.string());
  static const auto local = std::make_shared<storage::LocalFileSystem>();
  return local;
}

void use_s3_settings(const config::S3& section, const http::Environment& environment) {
  buckets().use(section, environment);
}

s3::Options settings_at(const std::string& uri) {
  return buckets().options_at(uri);
}

fs::path plain_remote(const fs::path& path) {
  if (!is_remote(path)) return path;
  const s3::S3Uri uri = s3::parse_s3_uri(path.native());
  return uri.prefix.empty() ? fmt::format("s3://{}", uri.bucket)
                            : fmt::format("s3://{}/{}", uri.bucket, uri.prefix);
}

bool is_there(const fs::path& path) {
  if (is_remote(path)) return remote_kind(path) != storage::FileKind::missing;
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  if (is_remote(path)) return remote_kind(path) == storage::FileKind::folder;
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace wmtp::models
