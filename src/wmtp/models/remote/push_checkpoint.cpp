#include <fmt/format.h>

#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/core/log.h"
#include "wmtp/models/remote/copy_checkpoint.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/s3/etag_check.h"
#include "wmtp/s3/upload.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;
using checkpoint::Pointer;

constexpr std::uint64_t kMostManifestBytes = std::uint64_t{512} << 20;
constexpr std::uint64_t kMostPointerBytes = 4096;

class Push {
 public:
  Push(const fs::path& folder, const std::string& uri, const OnCopied& on_copied)
      : folder_(folder),
        session_(s3::open_session(settings_at(uri))),
        bucket_(session_),
        reader_(files_, folder),
        on_copied_(on_copied) {
    const checkpoint::Manifest& manifest = reader_.manifest();
    result_.name = checkpoint::checkpoint_name(manifest.model, manifest.step);
    result_.place = shown(result_.name);
  }

  CopyResult run() {
    refuse_other();
    for (const checkpoint::FileRecord& file : reader_.manifest().files) {
      reader_.check_file(file, checkpoint::Verify::full);
      send(file.path);
    }
    send(std::string(checkpoint::kManifestFile));
    point_here(Pointer::latest);
    for (const Pointer pointer : {Pointer::best, Pointer::final})
      if (is_pointed_to(pointer)) point_here(pointer);
    return std::move(result_);
  }

 private:
  std::string key_of(std::string_view path) const {
    return fmt::format("{}/{}", result_.name, path);
  }
  std::string shown(std::string_view name) const {
    return session_->location().shown(session_->location().key_of(name));
  }

  // What is published stays as it is: under its manifest no file may change.
  void refuse_other() {
    const std::string key = key_of(checkpoint::kManifestFile);
    if (!bucket_.head(key)) return;
    const std::string ours = storage::read_text(files_, folder_, checkpoint::kManifestFile,
                                                folder_.string(), kMostManifestBytes);
    if (bucket_.get(key, kMostManifestBytes) == ours) return;
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} is another checkpoint of this name", shown(result_.name)),
                "name another prefix, or remove that one first");
  }

  bool is_there_already(const std::string& key, const fs::path& file) {
    const auto facts = bucket_.head(key);
    if (!facts || facts->bytes != files_.status(file).bytes) return false;
    const UniqueFd opened = storage::open_regular(file);
    return s3::compare_with_etag(opened.get(), *facts, *session_) == s3::EtagVerdict::same;
  }

  void send(const std::string& path) {
    const fs::path file = folder_ / path;
    const std::string key = key_of(path);
    CopiedFile copied{path, files_.status(file).bytes, is_there_already(key, file), ++num_done_,
                      reader_.manifest().files.size() + 1};
    if (copied.was_there) {
      ++result_.num_kept;
    } else {
      upload(file, key);
      ++result_.num_copied;
      result_.copied_bytes += copied.bytes;
    }
    if (on_copied_) on_copied_(copied);
  }

  // Parts that nobody would go on with cost money: they are given up with the upload.
  void upload(const fs::path& file, const std::string& key) {
    s3::UploadState state;
    try {
      s3::upload_file(session_, file, key, state);
    } catch (...) {
      if (!state.upload_id.empty()) give_up(key, state.upload_id);
      throw;
    }
  }
  void give_up(const std::string& key, const std::string& upload_id) {
    try {
      bucket_.abort_upload(key, upload_id);
    } catch (const Error& error) {
      log::warn("s3", "the unfinished upload of {} stays there: {}", shown(key), error.fact());
    }
  }

  bool is_pointed_to(Pointer pointer) const {
    try {
      return checkpoint::read_pointer(files_, folder_.parent_path(), reader_.manifest().model,
                                      pointer) == result_.name;
    } catch (const Error&) {
      return false;  // a hint that cannot be read is none
    }
  }

  void point_here(Pointer pointer) {
    const std::string name = checkpoint::pointer_name(reader_.manifest().model, pointer);
    if (const auto facts = bucket_.head(name); facts && facts->bytes <= kMostPointerBytes) {
      std::string target = bucket_.get(name, kMostPointerBytes);
      if (target.ends_with('\n')) target.pop_back();
      if (target == result_.name) return;
      const auto there = checkpoint::parse_checkpoint_name(target);
      if (pointer == Pointer::latest && there && there->step > reader_.manifest().step) return;
    }
    const std::string line = result_.name + "\n";
    bucket_.put(name, s3::payload_of(line, session_->options().checksum));
    result_.pointers.push_back(name);
  }

  const fs::path folder_;
  storage::LocalFileSystem files_;
  std::shared_ptr<s3::Session> session_;
  s3::Bucket bucket_;
  checkpoint::CheckpointReader reader_;
  const OnCopied& on_copied_;
  CopyResult result_;
  std::size_t num_done_ = 0;
};

}  // namespace

CopyResult push_checkpoint(const fs::path& folder, const std::string& uri,
                           const OnCopied& on_copied) {
  return Push(folder, uri, on_copied).run();
}

}  // namespace wmtp::models
