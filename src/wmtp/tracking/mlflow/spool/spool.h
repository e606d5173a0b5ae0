// The spool of one run: numbered segments of records, written by one process at a time. A line is
// written at once, so a kill of the process takes nothing away; flush() keeps it from a power loss
// as well. Segments only grow and an older start's are never written again, so that a torn line is
// always the last of its segment.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "wmtp/core/time.h"
#include "wmtp/storage/file_system.h"
#include "wmtp/tracking/mlflow/spool/record.h"
#include "wmtp/tracking/mlflow/spool/spool_files.h"

namespace wmtp::tracking::mlflow {

inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kMaxCopiedBytes = std::uint64_t{16} << 20;  // of an artifact

// THREADS: any.
class Spool {
 public:
  // Makes the folder where there is none (its parent must exist), and hands every record that is
  // there to `seen`. BORROWS files. Throws storage::FileError. REQUIRES that no other process has
  // the spool open.
  Spool(storage::FileSystem& files, std::filesystem::path folder,
        const std::function<void(const Record&)>& seen);

  // Whether the record is in the spool or will be: where the disk refuses, some 8 MiB wait in
  // memory until it takes them again.
  bool append(RecordKind kind, OrderedJson payload);
  // The file as an artifact's record.
  bool append_artifact(std::string_view name, const std::filesystem::path& path);
  // BLOCKS until all records are on the disk. Whether they are.
  bool flush();
  // When the run is over and the server has all.
  void remove_segments();

  std::uint64_t last_seq() const { return last_seq_; }
  std::uint64_t num_strange() const { return num_strange_; }  // lines found at the opening
  const std::filesystem::path& folder() const { return folder_; }
  const storage::FileSystem& files() const { return files_; }

  // The small files, one thread at a time.
  template <class Use>
  auto with_files(Use use) {
    const std::scoped_lock lock(small_files_mutex_);
    return use(small_files_);
  }

 private:
  void write_pending();
  void sync_pending();
  void begin_segment();
  void give_up_segment(const Error& error);

  storage::FileSystem& files_;
  const std::filesystem::path folder_;
  std::uint64_t num_strange_ = 0;
  std::mutex mutex_;
  std::atomic<std::uint64_t> last_seq_ = 0;
  std::uint64_t segment_number_ = 0, num_artifacts_ = 0;
  std::unique_ptr<storage::OutputFile> segment_;
  std::uint64_t segment_bytes_ = 0;
  std::deque<std::string> pending_;  // lines that are not synced
  std::size_t num_written_ = 0;      // of these, in the segment
  std::uint64_t pending_bytes_ = 0;
  bool folder_is_synced_ = false, has_warned_ = false;
  Clock::time_point next_try_ = {};
  std::mutex small_files_mutex_;
  SpoolFiles small_files_;
};

}  // namespace wmtp::tracking::mlflow
