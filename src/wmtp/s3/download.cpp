#include "wmtp/s3/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>  // mkostemp
#include <vector>

#include "wmtp/core/printable.h"
#include "wmtp/s3/etag_check.h"
#include "wmtp/s3/parallel.h"
#include "wmtp/s3/part_plan.h"
#include "wmtp/s3/range_sink.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::s3 {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

// A file without its name yet: removed unless it is published.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : path_(path) {
    temporary_ =
        (path.parent_path() / fmt::format(".{}.XXXXXX", path.filename().string())).string();
    file_ = UniqueFd(::mkostemp(temporary_.data(), O_CLOEXEC));
    if (!file_) throw storage::FileError(errno, "create", temporary_);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (!is_published_) ::unlink(temporary_.c_str());
  }
  int get() const { return file_.get(); }

  void write(std::uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count =
          ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw storage::FileError(errno, "write", temporary_);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  }

  void publish() {
    if (::fsync(file_.get()) != 0) throw storage::FileError(errno, "sync", temporary_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
      throw storage::FileError(errno, "rename", temporary_);
    is_published_ = true;
    const std::filesystem::path folder = path_.parent_path();
    storage::sync_folder(folder.empty() ? "." : folder);
  }

 private:
  std::filesystem::path path_;
  std::string temporary_;
  UniqueFd file_;
  bool is_published_ = false;
};

// A range on its way into the file, in blocks: libcurl hands out 16 KiB at a time, and the threads
// would wait for each other at the kernel's lock of the file.
class BlockWriter {
 public:
  BlockWriter(const NewFile& file, std::uint64_t first) : file_(file), first_(first) {
    block_.reserve(kBlockBytes);
  }

  // `at` begins anew at 0 where the range is asked for again.
  void take(std::uint64_t at, std::span<const std::byte> bytes) {
    if (at == 0) {
      block_.clear();
      block_at_ = 0;
    }
    if (block_.size() + bytes.size() > kBlockBytes) flush();
    block_.insert(block_.end(), bytes.begin(), bytes.end());
  }

  void flush() {
    file_.write(first_ + block_at_, block_);
    block_at_ += block_.size();
    block_.clear();
  }

 private:
  const NewFile& file_;
  std::uint64_t first_;
  std::uint64_t block_at_ = 0;  // within the range
  std::vector<std::byte> block_;
};

}  // namespace

DownloadResult download_file(const std::shared_ptr<Session>& session, std::string_view name,
                             const std::filesystem::path& path, const DownloadOptions& options) {
  const std::string shown = session->location().shown(session->location().key_of(name));
  const auto facts = Bucket(session, options.cancelled).head(name);
  if (!facts)
    throw S3Error(Problem::not_found, 404, "", fmt::format("there is no {}", shown),
                  "is the name right, and has the upload ended?");
  NewFile file(path);
  const PartPlan plan{facts->bytes, session->options().part_bytes};
  if (facts->bytes > 0)
    for_each_number(session, plan.num_parts(), options.cancelled, [&](Bucket& bucket, int number) {
      const http::ByteRange range = plan.range_of(number);
      BlockWriter writer(file, range.first);
      RangeSink sink(facts->etag, shown, [&](std::uint64_t at, std::span<const std::byte> bytes) {
        writer.take(at, bytes);
      });
      bucket.get_range(name, range, sink);
      writer.flush();
    });
  const EtagVerdict verdict =
      options.check_etag ? compare_with_etag(file.get(), *facts, *session) : EtagVerdict::unknown;
  if (verdict == EtagVerdict::different)
    throw S3Error(Problem::bad_digest, 200, "",
                  fmt::format("the bytes of {} do not have the MD5 that it says (ETag \"{}\")",
                              shown, printable(facts->etag)),
                  "damaged on the way, or by the server");
  file.publish();
  return {facts->bytes, facts->etag, verdict == EtagVerdict::same};
}

}  // namespace wmtp::s3
