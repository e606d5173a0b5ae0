// Reads the segments of a spool in their order, also while another thread writes them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "wmtp/storage/file_system.h"
#include "wmtp/tracking/mlflow/spool/record.h"

namespace wmtp::tracking::mlflow {

std::string segment_name(std::uint64_t number);  // 00000001.jsonl
// Of a folder's entry; nothing where it is no segment (a link is none).
std::optional<std::uint64_t> segment_number(const storage::FolderEntry& entry);

// Lines that are no record are passed over: what a power loss left of unsynced ones, unfinished
// lines at a segment's end, and strange files. So are records whose seq does not grow: lines are
// written once more into a new segment where a disk refused to sync them.
class SpoolReader {
 public:
  SpoolReader(const storage::FileSystem& files, std::filesystem::path folder);  // BORROWS files

  // The next record, or nothing for now. Throws storage::FileError.
  std::optional<Record> next();
  std::uint64_t num_strange() const { return num_strange_; }  // lines

 private:
  bool take_line(std::string& line);
  bool fill();  // more of a segment
  std::optional<std::uint64_t> segment_after(std::uint64_t number) const;

  const storage::FileSystem& files_;
  std::filesystem::path folder_;
  std::uint64_t segment_ = 0, offset_ = 0;  // 0: none yet
  std::string buffer_;
  std::size_t begin_ = 0;    // of what is unread in it
  bool skips_line_ = false;  // the rest of a line that is too long
  std::uint64_t last_seq_ = 0, num_strange_ = 0;
};

}  // namespace wmtp::tracking::mlflow
