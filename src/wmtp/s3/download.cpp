#include "wmtp/s3/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>  // mkostemp

#include "wmtp/core/printable.h"
#include "wmtp/s3/etag_check.h"
#include "wmtp/s3/parallel.h"
#include "wmtp/s3/part_plan.h"
#include "wmtp/s3/range_sink.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::s3 {
namespace {

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

}  // namespace

DownloadResult download_file(const std::shared_ptr<Session>& session, std::string_view name,
                             const std::filesystem::path& path,
                             const std::atomic<bool>* cancelled) {
  const std::string shown = session->location().shown(session->location().key_of(name));
  const auto facts = Bucket(session, cancelled).head(name);
  if (!facts)
    throw S3Error(Problem::not_found, 404, "", fmt::format("there is no {}", shown),
                  "is the name right, and has the upload ended?");
  NewFile file(path);
  const PartPlan plan{facts->bytes, session->options().part_bytes};
  if (facts->bytes > 0)
    for_each_number(session, plan.num_parts(), cancelled, [&](Bucket& bucket, int number) {
      const http::ByteRange range = plan.range_of(number);
      RangeSink sink(facts->etag, shown, [&](std::uint64_t at, std::span<const std::byte> bytes) {
        file.write(range.first + at, bytes);
      });
      bucket.get_range(name, range, sink);
    });
  const EtagVerdict verdict = compare_with_etag(file.get(), *facts, *session);
  if (verdict == EtagVerdict::different)
    throw S3Error(Problem::bad_digest, 200, "",
                  fmt::format("the bytes of {} do not have the MD5 that it says (ETag \"{}\")",
                              shown, printable(facts->etag)),
                  "damaged on the way, or by the server");
  file.publish();
  return {facts->bytes, facts->etag, verdict == EtagVerdict::same};
}

}  // namespace wmtp::s3
