// A folder of checkpoints: finding them, setting bad ones aside, clearing what killed runs left.
#pragma once
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

struct FoundCheckpoint {
  std::string name, model;
  std::int64_t step = 0;
};

// By name only, newest step first; an empty `model` finds all. Those that retention was removing
// are none. A folder that does not exist holds none.
std::vector<FoundCheckpoint> find_checkpoints(const storage::FileSystem& files,
                                              const std::filesystem::path& save_dir,
                                              std::string_view model);

// The models that have anything here: checkpoints, some that were set aside, or leftovers.
std::set<std::string> find_models(const storage::FileSystem& files,
                                  const std::filesystem::path& save_dir);

// Names of the checkpoints of `model` (empty: of all) that quarantine() has set aside, in the order
// of the names.
std::vector<std::string> find_set_aside(const storage::FileSystem& files,
                                        const std::filesystem::path& save_dir,
                                        std::string_view model);

// Renames to <name>.bad-<k>, k the first that is free, and returns that name.
std::string quarantine(storage::FileSystem& files, const std::filesystem::path& save_dir,
                       std::string_view name);

struct Leftover {
  std::string name;
  std::string returns_as = {};  // moved aside for a replacement that never came; else empty
};
// Temporary folders, half-removed checkpoints and pointer drafts of `model`.
std::vector<Leftover> find_leftovers(const storage::FileSystem& files,
                                     const std::filesystem::path& save_dir, std::string_view model);

// Removes them, and brings back what was moved aside. REQUIRES the run's lock, and no save under
// way. Returns the names of what was there.
std::vector<std::string> clear_leftovers(storage::FileSystem& files,
                                         const std::filesystem::path& save_dir,
                                         std::string_view model);

}  // namespace wmtp::checkpoint
