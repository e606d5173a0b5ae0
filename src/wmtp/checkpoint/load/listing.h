// What `wmtp checkpoint list` and `inspect` show of a folder of checkpoints.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

struct ListedCheckpoint {
  std::string name, model;
  std::int64_t step = 0;
  std::string created = {};         // empty: no manifest that can be believed
  std::uint64_t bytes = 0;          // of all files
  std::vector<Pointer> marks = {};  // pointers that name it
  std::string fault = {};           // empty: manifest, sizes and headers are right
};

// By model, newest step first. Bad ones are listed with their fault; a folder that does not exist
// is ErrorKind::config.
std::vector<ListedCheckpoint> list_checkpoints(const storage::FileSystem& files,
                                               const std::filesystem::path& save_dir);

struct SetAside {
  std::string name;
  std::uint64_t bytes = 0;  // of all files in it
};
// What was found damaged and renamed (quarantine()), in the order of the names.
std::vector<SetAside> list_set_aside(const storage::FileSystem& files,
                                     const std::filesystem::path& save_dir);

// Whether the pointer names it. One that cannot be read names nothing here; who removes checkpoints
// asks read_pointer(), and must know.
bool is_named_by(const storage::FileSystem& files, const std::filesystem::path& save_dir,
                 const FoundCheckpoint& found, Pointer pointer);

// Whether the folder holds a manifest, good or bad.
bool is_checkpoint(const storage::FileSystem& files, const std::filesystem::path& folder);

}  // namespace wmtp::checkpoint
