#include "wmtp/s3/queue/queue_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "wmtp/core/failpoint.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/s3/queue/queue_records.h"

namespace wmtp::s3 {
namespace {

constexpr std::string_view kSuffix = ".queue", kDraftSuffix = ".draft";
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

void write_all(storage::OutputFile& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text.data(), text.size())));
}

// In two halves with a failpoint between them, where a kill tears a record.
void write_torn(storage::OutputFile& file, std::string_view text,
                const std::filesystem::path& path) {
  write_all(file, text.substr(0, text.size() / 2));
  const failpoint::Action action = failpoint::pass("upload.queue.half");
  if (const int code = failpoint::error_number(action))
    throw storage::FileError(code, "write", path);
  write_all(file, text.substr(text.size() / 2));
}

}  // namespace

QueueLog::QueueLog(storage::FileSystem& files, std::filesystem::path folder,
                   const QueueEntry& entry)
    : files_(files),
      folder_(std::move(folder)),
      path_(folder_ / fmt::format("{}{}", entry.name, kSuffix)) {
  const std::filesystem::path draft = folder_ / fmt::format("{}{}", entry.name, kDraftSuffix);
  storage::remove_tree(files_, draft);  // of an attempt that was killed
  auto output = files_.create_file(draft);
  write_torn(*output, records_of(entry), draft);
  output->sync();
  files_.rename(draft, path_);
  files_.sync_folder(folder_);
  output_ = std::move(output);
}

void QueueLog::append(const std::string& lines, bool durable) {
  if (!output_ || lines.empty()) return;
  try {
    write_torn(*output_, lines, path_);
    if (durable) output_->sync();
  } catch (const Error& error) {
    output_.reset();
    log::warn("s3", "{}; an interrupted upload would begin anew", error.fact());
  }
}

void QueueLog::note_state(std::size_t file, const UploadState& state) {
  const std::lock_guard lock(mutex_);
  if (state_of_ != file) noted_ = {};
  state_of_ = file;
  std::string lines;
  const bool is_new = noted_.upload_id != state.upload_id;
  if (is_new) {
    lines += begin_record(file, state);
    noted_ = {state.upload_id, state.part_bytes, {}};
  }
  for (const auto& [number, part] : state.parts) {
    const auto known = noted_.parts.find(number);
    if (known != noted_.parts.end() && known->second.etag == part.etag) continue;
    lines += part_record(file, number, part);
    noted_.parts[number] = part;
  }
  append(lines, is_new);
}

void QueueLog::note_up(std::size_t file) {
  const std::lock_guard lock(mutex_);
  append(up_record(file), true);
}

void QueueLog::note_pointer(std::string_view pointer) {
  const std::lock_guard lock(mutex_);
  append(pointer_record(pointer), true);
}

void QueueLog::remove() {
  const std::lock_guard lock(mutex_);
  output_.reset();
  try {
    storage::remove_tree(files_, path_);
    files_.sync_folder(folder_);
  } catch (const Error& error) {
    log::warn("s3", "{}; the next start will look at this upload once more", error.fact());
  }
}

std::vector<QueueEntry> read_queue(const storage::FileSystem& files,
                                   const std::filesystem::path& folder) {
  std::vector<QueueEntry> entries;
  if (files.status(folder).kind != storage::FileKind::folder) return entries;
  for (const storage::FolderEntry& found : files.list(folder)) {
    if (found.kind != storage::FileKind::file || !found.name.ends_with(kSuffix)) continue;
    const std::string name = found.name.substr(0, found.name.size() - kSuffix.size());
    try {
      entries.push_back(parse_records(
          storage::read_text(files, folder, found.name, "the queue", kMostBytes), name));
    } catch (const storage::FileError&) {
      throw;  // a failing disk is no verdict
    } catch (const Error& error) {
      log::warn("s3", "{} is left out: {}", printable((folder / found.name).string()),
                printable(error.fact()));
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const QueueEntry& a, const QueueEntry& b) { return a.order < b.order; });
  return entries;
}

}  // namespace wmtp::s3
