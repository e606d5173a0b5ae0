// One file to one object.
#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "wmtp/s3/bucket.h"

namespace wmtp::s3 {

// A multipart upload that was begun: all that is needed to go on with it, in another process too.
struct UploadState {
  struct Part {
    std::string etag;     // as the server gave it
    std::string md5_hex;  // of the bytes that were sent; empty where Checksum::none left it out
  };
  std::string upload_id;         // empty: nothing was begun
  std::uint64_t part_bytes = 0;  // of this upload, whatever the options say now
  std::map<int, Part> parts;     // those that the server has taken
};

struct UploadOptions {
  // Called whenever the state has grown, so that it can be kept; by any thread, one at a time.
  std::function<void(const UploadState&)> on_change;
  const std::atomic<bool>* cancelled = nullptr;  // BORROWS
};

struct UploadResult {
  std::uint64_t bytes = 0;
  std::string etag;
  int num_sent_parts = 0;    // 0: a single PUT
  int num_reused_parts = 0;  // those of an upload that was begun before
};

// BLOCKS until the object is there and its size, and its ETag where that is a sum of MD5s, are
// those of the file; with Checksum::none the size alone. Memory does not grow with it. A file of at
// most one part is a single PUT. `state` is followed and, at the end, empty. Parts of an upload
// begun before are sent again where the file's bytes have changed or the server does not have them;
// where the upload itself is gone, a new one is begun. An error leaves the state as it is, for
// another try or abort_upload.
UploadResult upload_file(const std::shared_ptr<Session>& session, const std::filesystem::path& path,
                         std::string_view name, UploadState& state,
                         const UploadOptions& options = {});

}  // namespace wmtp::s3
