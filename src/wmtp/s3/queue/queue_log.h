// What waits to go up, on disk: a file for each folder, with a record a line. A record is the
// CRC-32C of its JSON text, a space and that text. The first one names the files, later ones what
// has become of them. Readers stop at the first record that is not whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/s3/upload.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::s3 {

struct QueuedFile {
  std::string path;  // below the folder
  std::uint64_t bytes = 0;
  bool is_up = false;      // and was seen there
  UploadState state = {};  // of one that was begun
};

struct QueueEntry {
  std::string name;         // of the folder, and what the names of its objects begin with
  std::string version;      // tells contents of the same name apart
  std::uint64_t order = 0;  // lower ones go up first
  // At least one. The last makes the folder count (manifest.json): it goes up once the others are
  // there.
  std::vector<QueuedFile> files;
  std::vector<std::string> pointers;  // objects that are to hold the name and a line feed
};

// The file of one entry. A kill or a power cut leaves it as it was after some record, the last
// synced one or a later one; syncs come where forgetting would cost more than sending a part again.
// THREADS: any.
class QueueLog {
 public:
  // BLOCKS. Writes the entry under a temporary name and renames it over a file that is there.
  // BORROWS `files`. FileError where it cannot.
  QueueLog(storage::FileSystem& files, std::filesystem::path folder, const QueueEntry& entry);

  // What follows BLOCKS for the disk. A failure is a warning, and nothing is written any more: a
  // restart would begin the entry from what is there.
  void note_state(std::size_t file, const UploadState& state);
  void note_up(std::size_t file);
  void note_pointer(std::string_view pointer);
  void remove();  // the entry is done with

 private:
  void append(const std::string& lines, bool durable);

  storage::FileSystem& files_;
  std::filesystem::path folder_, path_;
  std::mutex mutex_;
  std::unique_ptr<storage::OutputFile> output_;  // null: a write has failed
  std::size_t state_of_ = SIZE_MAX;              // the file that `noted_` belongs to
  UploadState noted_;
};

// All entries, in their order; a folder that does not exist holds none. A file whose first record
// is damaged, or names what no entry could name, is told and left out.
std::vector<QueueEntry> read_queue(const storage::FileSystem& files,
                                   const std::filesystem::path& folder);

}  // namespace wmtp::s3
