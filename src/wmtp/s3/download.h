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
  // By the ETag, which is the MD5 of the whole or of parts whose size could be told. False: it was
  // not to be looked at or says nothing that could be compared; size and framing alone are right.
  bool is_verified = false;
};

struct DownloadOptions {
  // Whether the bytes are held against the ETag. MD5 costs as much as all else that a download
  // does; callers with a hash of their own spare it.
  bool check_etag = true;
  const std::atomic<bool>* cancelled = nullptr;  // BORROWS
};

// BLOCKS. Ranges of a part's size in several threads, into a file beside `path` that takes its name
// once it is whole, verified and on the disk. An object that is replaced meanwhile is an error, as
// is one whose bytes do not fit its ETag (S3Error bad_digest); then nothing is left behind.
DownloadResult download_file(const std::shared_ptr<Session>& session, std::string_view name,
                             const std::filesystem::path& path,
                             const DownloadOptions& options = {});

}  // namespace wmtp::s3
