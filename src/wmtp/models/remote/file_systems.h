// Which file system a path is of. What reads checkpoints asks here, so that s3://bucket/... works
// wherever a folder on a disk does.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "wmtp/config/checkpoint.h"
#include "wmtp/s3/options.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::models {

bool is_remote(const std::filesystem::path& path);  // s3://...

// The disk's, or that of the bucket (s3/files/s3_file_system.h), which is opened once: all paths of
// a bucket share its connections. Error config where settings, environment or URI make no sense.
// THREADS: any.
std::shared_ptr<storage::FileSystem> files_of(const std::filesystem::path& path);

// The settings of buckets that are opened from now on: a configuration's section storage.s3.
// Without this call they are the defaults, and the variables those of the process. THREADS: any.
void use_s3_settings(const config::S3& section, const http::Environment& environment);

// The options of those settings for an s3://bucket/prefix. Error config where it is none. THREADS:
// any.
s3::Options settings_at(const std::string& uri);

// A URI without "/" at its end (never lexically_normal(), which takes one of "//" away). Any other
// path stays as it is.
std::filesystem::path plain_remote(const std::filesystem::path& path);

// As std::filesystem has them, for paths of both kinds. A disk that cannot tell says no; S3 that
// refuses or does not answer is an error.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

}  // namespace wmtp::models
