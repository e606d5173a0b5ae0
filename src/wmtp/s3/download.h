// One object to one file.
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <string_view>

#include "wmtp/s3/bucket.h"

namespace wmtp::s3 {

struct DownloadResult {
  std::uint64_t bytes = 0;
  std::string etag;
  // By the ETag, which is the MD5 of the whole or of parts whose size could be told. False: the
  // ETag says nothing that could be compared, size and framing alone are right; callers with a
  // hash of their own compare that.
  bool is_verified = false;
};

// BLOCKS. Ranges of a part's size in several threads, into a file beside `path` that takes its name
// once it is whole, verified and on the disk. An object that is replaced meanwhile is an error, as
// is one whose bytes do not fit its ETag (S3Error bad_digest); then nothing is left behind.
DownloadResult download_file(const std::shared_ptr<Session>& session, std::string_view name,
                             const std::filesystem::path& path,
                             const std::atomic<bool>* cancelled = nullptr);

}  // namespace wmtp::s3
