#include "wmtp/s3/queue/folder_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "wmtp/core/failpoint.h"
#include "wmtp/core/file.h"
#include "wmtp/core/printable.h"

// The order is the whole point. A reader takes a folder for a checkpoint by its manifest alone, so
// that object is the last to come and the first to go: an old one of the same name is removed
// before any data object is written over, and the new one is put only after a list has shown all
// data objects with their sizes. A kill between any two requests leaves a folder without a
// manifest, which is none, or one whose data is there.

namespace wmtp::s3 {
namespace {

constexpr std::int64_t kOrphanAgeS = 24 * 60 * 60;

std::string object_name(std::string_view folder, std::string_view path) {
  return fmt::format("{}/{}", folder, path);
}

class FolderUpload {
 public:
  FolderUpload(const std::shared_ptr<Session>& session, const std::filesystem::path& folder,
               QueueEntry& entry, const FolderNotes& notes, const std::atomic<bool>* cancelled)
      : session_(session),
        folder_(folder),
        entry_(entry),
        notes_(notes),
        cancelled_(cancelled),
        bucket_(session, cancelled) {}

  void run() {
    if (is_there()) return;
    make_room();
    const std::size_t last = entry_.files.size() - 1;
    for (std::size_t i = 0; i < last; ++i)
      if (!entry_.files[i].is_up) send(i);
    require_data();
    failpoint::pass("upload.manifest.put");
    send(last);
  }

 private:
  // By its bytes: not every server has ETags that could be compared.
  bool is_there() {
    const QueuedFile& last = entry_.files.back();
    const std::string name = object_name(entry_.name, last.path);
    const auto facts = bucket_.head(name);
    if (!facts) return false;
    const std::string here = read_file(folder_ / last.path, last.bytes);
    if (facts->bytes == here.size() && bucket_.get(name, facts->bytes) == here) return true;
    bucket_.remove(name);
    for (QueuedFile& file : entry_.files) file.is_up = false;  // they were another's
    return false;
  }

  // Objects that a folder of the same name had and this one has not.
  void make_room() {
    for (const ObjectEntry& object : bucket_.list_all(entry_.name + "/")) {
      const bool is_ours =
          std::any_of(entry_.files.begin(), entry_.files.end(), [&](const QueuedFile& file) {
            return object.key == object_name(entry_.name, file.path);
          });
      if (!is_ours) bucket_.remove(object.key);
    }
  }

  void send(std::size_t index) {
    QueuedFile& file = entry_.files[index];
    const UploadOptions options{[&](const UploadState& state) {
                                  if (notes_.on_state) notes_.on_state(index, state);
                                },
                                cancelled_};
    const UploadResult result = upload_file(
        session_, folder_ / file.path, object_name(entry_.name, file.path), file.state, options);
    failpoint::pass("upload.head.done");
    if (result.bytes != file.bytes)
      throw Error(ErrorKind::io, "s3",
                  fmt::format("{} has {} bytes, {} when it was queued",
                              printable((folder_ / file.path).string()), result.bytes, file.bytes));
    file.is_up = true;
    if (notes_.on_up) notes_.on_up(index, result);
  }

  void require_data() {
    std::map<std::string, std::uint64_t> found;
    for (const ObjectEntry& object : bucket_.list_all(entry_.name + "/"))
      found.emplace(object.key, object.bytes);
    std::string missing;
    for (std::size_t i = 0; i + 1 < entry_.files.size(); ++i) {
      QueuedFile& file = entry_.files[i];
      const auto object = found.find(object_name(entry_.name, file.path));
      if (object != found.end() && object->second == file.bytes) continue;
      file.is_up = false;
      missing = object_name(entry_.name, file.path);
    }
    if (!missing.empty())
      throw Error(ErrorKind::io, "s3",
                  fmt::format("{} was sent and is not there as it was sent", printable(missing)),
                  "does something else write to this prefix?");
  }

  std::shared_ptr<Session> session_;
  const std::filesystem::path& folder_;
  QueueEntry& entry_;
  const FolderNotes& notes_;
  const std::atomic<bool>* cancelled_;
  Bucket bucket_;
};

}  // namespace

void upload_folder(const std::shared_ptr<Session>& session, const std::filesystem::path& folder,
                   QueueEntry& entry, const FolderNotes& notes,
                   const std::atomic<bool>* cancelled) {
  FolderUpload(session, folder, entry, notes, cancelled).run();
}

void put_pointer(Bucket& bucket, std::string_view pointer, std::string_view name) {
  const std::string line = fmt::format("{}\n", name);
  bucket.put(pointer, payload_of(line, bucket.session().options().checksum));
}

void remove_folder(Bucket& bucket, std::string_view name, std::string_view last) {
  bucket.remove(object_name(name, last));
  for (const ObjectEntry& object : bucket.list_all(fmt::format("{}/", name)))
    bucket.remove(object.key);
}

void give_up_folder(Bucket& bucket, QueueEntry& entry) {
  for (QueuedFile& file : entry.files) {
    if (file.state.upload_id.empty()) continue;
    bucket.abort_upload(object_name(entry.name, file.path), file.state.upload_id);
    file.state = {};
  }
  const std::string& last = entry.files.back().path;
  if (!bucket.head(object_name(entry.name, last))) remove_folder(bucket, entry.name, last);
}

int abort_orphans(Bucket& bucket, std::string_view name_prefix,
                  const std::function<bool(const std::string& upload_id)>& is_known) {
  int num_aborted = 0;
  for (const UploadEntry& upload : bucket.list_uploads(name_prefix)) {
    const bool is_old =
        upload.initiated && bucket.session().now() - *upload.initiated > kOrphanAgeS;
    if (!is_old || is_known(upload.upload_id)) continue;
    bucket.abort_upload(upload.key, upload.upload_id);
    ++num_aborted;
  }
  return num_aborted;
}

}  // namespace wmtp::s3
