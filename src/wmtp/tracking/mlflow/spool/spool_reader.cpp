#include "wmtp/tracking/mlflow/spool/spool_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

namespace wmtp::tracking::mlflow {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10;
constexpr std::string_view kSegmentEnding = ".jsonl";
constexpr std::size_t kNumDigits = 8;
// Records are numbered one after another; some are lost where a disk was full. A number far beyond
// is none of ours, and would hide all that follow.
constexpr std::uint64_t kMaxSeqGap = std::uint64_t{1} << 24;

}  // namespace

std::string segment_name(std::uint64_t number) {
  return fmt::format("{:0{}}{}", number, kNumDigits, kSegmentEnding);
}

std::optional<std::uint64_t> segment_number(const storage::FolderEntry& entry) {
  const std::string_view name = entry.name;
  if (entry.kind != storage::FileKind::file || name.size() != kNumDigits + kSegmentEnding.size() ||
      !name.ends_with(kSegmentEnding))
    return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = name.data() + kNumDigits;
  if (std::from_chars(name.data(), end, number).ptr != end || number == 0) return std::nullopt;
  return number;
}

SpoolReader::SpoolReader(const storage::FileSystem& files, std::filesystem::path folder)
    : files_(files), folder_(std::move(folder)) {}

std::optional<Record> SpoolReader::next() {
  std::string line;
  while (take_line(line)) {
    std::optional<Record> record = parse_record(line);
    if (!record || (last_seq_ > 0 && record->seq > last_seq_ + kMaxSeqGap)) {
      ++num_strange_;
      continue;
    }
    if (record->seq <= last_seq_) continue;
    last_seq_ = record->seq;
    return record;
  }
  return std::nullopt;
}

bool SpoolReader::take_line(std::string& line) {
  for (;;) {
    const std::size_t end = buffer_.find('\n', begin_);
    if (end != buffer_.npos) {
      line.assign(buffer_, begin_, end - begin_);
      begin_ = end + 1;
      if (!std::exchange(skips_line_, false)) return true;
      ++num_strange_;
      continue;
    }
    if (buffer_.size() - begin_ > kMaxRecordBytes) {
      skips_line_ = true;
      begin_ = buffer_.size();
    }
    if (!fill()) return false;
  }
}

bool SpoolReader::fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  if (segment_ == 0) {
    const auto first = segment_after(0);
    if (!first) return false;
    segment_ = *first;
  }
  // Looked up before the file is read to its end: once there is a next one, this one is complete.
  const auto following = segment_after(segment_);
  const auto file = files_.open(folder_, segment_name(segment_), folder_.string());
  const std::uint64_t size = file->size();
  if (size > offset_) {
    const std::size_t old = buffer_.size();
    buffer_.resize(old + std::min<std::uint64_t>(size - offset_, kReadBytes));
    file->read(offset_, std::as_writable_bytes(std::span(buffer_).subspan(old)));
    offset_ += buffer_.size() - old;
    return true;
  }
  if (!following) return false;
  buffer_.clear();  // an unfinished line
  skips_line_ = false;
  segment_ = *following;
  offset_ = 0;
  return true;
}

std::optional<std::uint64_t> SpoolReader::segment_after(std::uint64_t number) const {
  for (const storage::FolderEntry& entry : files_.list(folder_))
    if (const auto found = segment_number(entry); found && *found > number) return found;
  return std::nullopt;
}

}  // namespace wmtp::tracking::mlflow
