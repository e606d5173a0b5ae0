#include "wmtp/s3/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>  // mkostemp
#include <vector>

#include "wmtp/core/printable.h"
#include "wmtp/s3/file_part.h"
#include "wmtp/s3/parallel.h"
#include "wmtp/s3/part_plan.h"
#include "wmtp/s3/range_sink.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::s3 {
namespace {

// The part sizes of this program, of AWS's tools and of other clients, in MiB.
constexpr std::array<std::uint64_t, 10> kUsualPartSizes = {16, 8, 5, 10, 15, 32, 64, 100, 128, 256};

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

std::string etag_of_file(int file, const PartPlan& plan, bool is_composite) {
  std::vector<Md5Digest> parts;
  for (int number = 1; number <= plan.num_parts(); ++number)
    parts.push_back(digest_part(file, plan.range_of(number)).md5);
  return is_composite ? composite_etag(parts) : to_hex(parts.front());
}

enum class Verdict { same, different, unknown };

// By parts of the sizes that are usual and give the number of them that the ETag says. Sizes that
// nobody uses cannot be told from damage, so they are no proof against the file.
Verdict compare_with_etag(int file, const ObjectFacts& facts, const Session& session) {
  if (facts.has_opaque_etag) return Verdict::unknown;
  const auto lower = [](std::string text) {
    for (char& c : text)
      if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    return text;
  };
  const std::string etag = lower(facts.etag);
  if (is_md5_etag(etag)) {
    const PartPlan whole{facts.bytes, std::max<std::uint64_t>(1, facts.bytes)};
    const bool is_same = etag_of_file(file, whole, false) == etag;
    return is_same ? Verdict::same : Verdict::different;
  }
  const auto num_parts = num_parts_of_etag(etag);
  if (!num_parts) return Verdict::unknown;
  std::vector<std::uint64_t> sizes = {
      plan_parts(facts.bytes, session.options().part_bytes).part_bytes};
  for (const std::uint64_t mebibytes : kUsualPartSizes)
    sizes.push_back(plan_parts(facts.bytes, mebibytes * kMebibyte).part_bytes);
  for (const std::uint64_t size : sizes) {
    const PartPlan plan{facts.bytes, size};
    if (plan.num_parts() == *num_parts && etag_of_file(file, plan, true) == etag)
      return Verdict::same;
  }
  return Verdict::unknown;
}

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
  const Verdict verdict = compare_with_etag(file.get(), *facts, *session);
  if (verdict == Verdict::different)
    throw S3Error(Problem::bad_digest, 200, "",
                  fmt::format("the bytes of {} do not have the MD5 that it says (ETag \"{}\")",
                              shown, printable(facts->etag)),
                  "damaged on the way, or by the server");
  file.publish();
  return {facts->bytes, facts->etag, verdict == Verdict::same};
}

}  // namespace wmtp::s3
