#include <sys/file.h>

#include <fcntl.h>

#include <fmt/format.h>

#include <cerrno>

#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/core/unique_fd.h"
#include "wmtp/models/remote/copy_checkpoint.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/s3/download.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;
using checkpoint::FileRecord;
using storage::FileKind;

constexpr std::uint64_t kMostPulledManifestBytes = std::uint64_t{512} << 20;
constexpr std::size_t kTagDigits = 16;

class Pull {
 public:
  Pull(const fs::path& remote, const fs::path& folder, const OnCopied& on_copied)
      : session_(s3::open_session(settings_at(remote.string()))),
        folder_(folder),
        on_copied_(on_copied) {
    text_ = storage::read_text(*files_of(remote), remote, checkpoint::kManifestFile,
                               remote.string(), kMostPulledManifestBytes);
    manifest_ = checkpoint::parse_manifest(text_, remote.string());
    result_.name = checkpoint::checkpoint_name(manifest_.model, manifest_.step);
    place_ = folder_ / result_.name;
    result_.place = place_.string();
    // The same checkpoint finds what an earlier pull of it has left, another one does not.
    const std::string tag = "pull-" + manifest_.self_sha256.substr(0, kTagDigits);
    draft_ = folder_ / checkpoint::hidden_name(result_.name, "tmp", tag);
  }

  CopyResult run() {
    if (is_here()) return keep_all();
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) throw storage::FileError(error.value(), "create folder", folder_);
    if (local_.status(draft_).kind == FileKind::missing) local_.create_folder(draft_);
    const UniqueFd lock = lock_draft();
    remove_cut_downloads(draft_);
    for (const FileRecord& file : manifest_.files) fetch(file);
    storage::write_file_atomically(draft_ / checkpoint::kManifestFile, text_);
    local_.sync_folder(draft_);
    local_.rename(draft_, place_);
    local_.sync_folder(folder_);
    return std::move(result_);
  }

 private:
  bool is_here() const {
    if (local_.status(place_).kind == FileKind::missing) return false;
    const auto damage = checkpoint::find_damage(local_, place_, checkpoint::Verify::full);
    if (!damage.empty()) throw checkpoint::DamageError(damage.front(), place_.string());
    if (checkpoint::CheckpointReader(local_, place_).manifest().self_sha256 ==
        manifest_.self_sha256)
      return true;
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} is another checkpoint of this name", place_.string()),
                "pull into another folder, or move that one away");
  }

  CopyResult keep_all() {
    for (const FileRecord& file : manifest_.files) report(file, true);
    return std::move(result_);
  }

  UniqueFd lock_draft() const {
    UniqueFd handle(::open(draft_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!handle) throw storage::FileError(errno, "open", draft_);
    if (::flock(handle.get(), LOCK_EX | LOCK_NB) == 0) return handle;
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("another process pulls {} into {}", result_.name, folder_.string()),
                "wait until it has ended");
  }

  // The hidden files of downloads that were killed; the rest is what the manifest lists.
  void remove_cut_downloads(const fs::path& folder) {
    for (const storage::FolderEntry& entry : local_.list(folder))
      if (entry.kind == FileKind::folder)
        remove_cut_downloads(folder / entry.name);
      else if (entry.name.starts_with('.'))
        local_.remove_file(folder / entry.name);
  }

  void make_parents(const fs::path& relative) {
    fs::path folder = draft_;
    for (const fs::path& part : relative) {
      folder /= part;
      if (local_.status(folder).kind == FileKind::missing) local_.create_folder(folder);
    }
  }

  // "" where it is not there, or not as long as it should be.
  std::string hash_here(const FileRecord& file) const {
    const storage::FileStatus status = local_.status(draft_ / file.path);
    if (status.kind != FileKind::file || status.bytes != file.bytes) return "";
    return checkpoint::sha256_of(*local_.open(draft_, file.path, checkpoint::kManifestFile));
  }

  void fetch(const FileRecord& file) {
    storage::check_relative_name(file.path, checkpoint::kManifestFile);
    const bool was_there = hash_here(file) == file.sha256;
    if (!was_there) {
      make_parents(fs::path(file.path).parent_path());
      s3::download_file(session_, file.path, draft_ / file.path, {.check_etag = false});
      if (const std::string hash = hash_here(file); hash != file.sha256)
        throw checkpoint::DamageError(
            {file.path, 0, file.bytes,
             hash.empty() ? std::string("it has another size than the manifest says")
                          : fmt::format("sha256 is {}, the manifest says {}", hash, file.sha256)},
            session_->location().shown(session_->location().prefix));
    }
    report(file, was_there);
  }

  void report(const FileRecord& file, bool was_there) {
    (was_there ? result_.num_kept : result_.num_copied) += 1;
    if (!was_there) result_.copied_bytes += file.bytes;
    if (on_copied_)
      on_copied_({file.path, file.bytes, was_there, ++num_done_, manifest_.files.size()});
  }

  std::shared_ptr<s3::Session> session_;  // its prefix is the checkpoint's folder
  fs::path folder_, place_, draft_;
  mutable storage::LocalFileSystem local_;
  std::string text_;
  checkpoint::Manifest manifest_;
  const OnCopied& on_copied_;
  CopyResult result_;
  std::size_t num_done_ = 0;
};

}  // namespace

CopyResult pull_checkpoint(const fs::path& remote, const fs::path& folder,
                           const OnCopied& on_copied) {
  return Pull(remote, folder, on_copied).run();
}

}  // namespace wmtp::models
