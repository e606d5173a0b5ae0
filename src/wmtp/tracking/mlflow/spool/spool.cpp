// The order of a flush is: bytes of the segment, then the folder's entry for it. Lines are kept in
// memory until both are done. After a failed write or fsync nothing is known of the segment's
// unsynced part: it is left as it is, and these lines go into a new segment under their old
// numbers, which readers count once.
#include "wmtp/tracking/mlflow/spool/spool.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "wmtp/core/file.h"
#include "wmtp/core/log.h"
#include "wmtp/tracking/mlflow/spool/spool_reader.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr std::uint64_t kMaxPendingBytes = 2 * kSegmentBytes;
constexpr std::chrono::seconds kPauseBetweenTries{1};
constexpr const char* kArtifactFolder = "artifacts";

}  // namespace

Spool::Spool(storage::FileSystem& files, std::filesystem::path folder,
             const std::function<void(const Record&)>& seen)
    : files_(files), folder_(std::move(folder)), small_files_(files, folder_) {
  for (const auto& wanted : {folder_, folder_ / kArtifactFolder})
    if (files_.status(wanted).kind == storage::FileKind::missing) {
      files_.create_folder(wanted);
      files_.sync_folder(wanted.parent_path());
    }
  // A name is taken whatever has it.
  for (const storage::FolderEntry& entry : files_.list(folder_))
    segment_number_ = std::max(segment_number_,
                               segment_number({entry.name, storage::FileKind::file}).value_or(0));
  num_artifacts_ = files_.list(folder_ / kArtifactFolder).size();
  SpoolReader reader(files_, folder_);
  while (const auto record = reader.next()) {
    last_seq_ = record->seq;
    seen(*record);
  }
  num_strange_ = reader.num_strange();
  last_seq_ = std::max(last_seq_.load(), small_files_.acked().seq);
}

bool Spool::append(RecordKind kind, OrderedJson payload) {
  const std::scoped_lock lock(mutex_);
  Record record{last_seq_ + 1, kind, std::move(payload)};
  std::string line = line_of(record);
  const bool fits =
      line.size() <= kMaxRecordBytes && pending_bytes_ + line.size() <= kMaxPendingBytes;
  if (fits) {
    ++last_seq_;
    pending_bytes_ += line.size();
    pending_.push_back(std::move(line));
  }
  if (!segment_ && Clock::now() < next_try_) return fits;
  try {
    write_pending();
    if (segment_bytes_ >= kSegmentBytes) {
      sync_pending();
      std::exchange(segment_, nullptr)->close();
    }
  } catch (const Error& error) {
    give_up_segment(error);
  }
  return fits;
}

bool Spool::append_artifact(std::string_view name, const std::filesystem::path& path) {
  std::error_code status;
  const auto size = std::filesystem::file_size(path, status);
  if (status) {
    log::warn("mlflow", "{} cannot be sent as artifact {}: {}", path.string(), name,
              status.message());
    return false;
  }
  if (size > kMaxCopiedBytes)
    return append(
        RecordKind::artifact,
        {{"name", name}, {"path", std::filesystem::absolute(path).string()}, {"copied", false}});
  std::string copied;
  try {
    const std::string bytes = read_file(path, kMaxCopiedBytes);
    const std::scoped_lock lock(mutex_);
    // Names of copies that are gone are not used again while their records may be read.
    do copied = fmt::format("{}/{:08}", kArtifactFolder, ++num_artifacts_);
    while (files_.status(folder_ / copied).kind != storage::FileKind::missing);
    const auto file = files_.create_file(folder_ / copied);
    file->write(std::as_bytes(std::span(bytes)));
    file->sync();
    file->close();
    files_.sync_folder(folder_ / kArtifactFolder);
  } catch (const Error& error) {
    log::warn("mlflow", "{} cannot be sent as artifact {}: {}", path.string(), name, error.fact());
    return false;
  }
  return append(RecordKind::artifact, {{"name", name}, {"path", copied}, {"copied", true}});
}

bool Spool::flush() {
  const std::scoped_lock lock(mutex_);
  try {
    write_pending();
    sync_pending();
    return true;
  } catch (const Error& error) {
    give_up_segment(error);
    return false;
  }
}

void Spool::write_pending() {
  for (; num_written_ < pending_.size(); ++num_written_) {
    if (!segment_) begin_segment();
    const std::string& line = pending_[num_written_];
    segment_->write(std::as_bytes(std::span(line)));
    segment_bytes_ += line.size();
  }
  if (std::exchange(has_warned_, false))
    log::info("mlflow", "{} is written again", folder_.string());
}

void Spool::sync_pending() {
  if (pending_.empty()) return;
  segment_->sync();
  if (!std::exchange(folder_is_synced_, true)) files_.sync_folder(folder_);
  pending_.clear();
  num_written_ = pending_bytes_ = 0;
}

void Spool::begin_segment() {
  segment_ = files_.create_file(folder_ / segment_name(++segment_number_));
  segment_bytes_ = 0;
  folder_is_synced_ = false;
}

void Spool::give_up_segment(const Error& error) {
  segment_.reset();
  num_written_ = 0;
  folder_is_synced_ = false;
  next_try_ = Clock::now() + kPauseBetweenTries;
  if (!std::exchange(has_warned_, true))
    log::warn("mlflow",
              "the spool cannot be written: {}; its records wait in memory, {} MiB at most. Free "
              "space there, or set mlflow.spool_dir",
              error.fact(), kMaxPendingBytes >> 20);
}

void Spool::remove_segments() {
  const std::scoped_lock lock(mutex_);
  segment_.reset();
  pending_.clear();
  num_written_ = pending_bytes_ = 0;
  for (const storage::FolderEntry& entry : files_.list(folder_))
    if (segment_number(entry)) files_.remove_file(folder_ / entry.name);
  for (const storage::FolderEntry& entry : files_.list(folder_ / kArtifactFolder))
    files_.remove_file(folder_ / kArtifactFolder / entry.name);
  files_.sync_folder(folder_);
}

}  // namespace wmtp::tracking::mlflow
