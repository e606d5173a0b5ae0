// Which checkpoints may go. By step numbers, never by file times.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

struct RetentionRules {
  std::optional<std::int64_t> keep = 3;  // newest; nothing: all. At least 2
  std::set<std::string> pinned = {};     // names that stay whatever the pointers say
  // Later ones are left alone: a run that was rewound does not lose its new checkpoints to those
  // of the line it left.
  std::int64_t newest_step = std::numeric_limits<std::int64_t>::max();
};

// The names to remove, oldest last to go first. Never what -best or -final name (Error where a
// pointer cannot be read), nor the two newest that verify (manifest, sizes, headers), nor what is
// pinned. What does not verify is for resume to set aside, a newer format for a newer program.
std::vector<std::string> plan_retention(const storage::FileSystem& files,
                                        const std::filesystem::path& save_dir,
                                        const std::string& model, const RetentionRules& rules);

// BLOCKS. Carries the plan out; REQUIRES the run's lock. Returns what was removed.
std::vector<std::string> apply_retention(storage::FileSystem& files,
                                         const std::filesystem::path& save_dir,
                                         const std::string& model, const RetentionRules& rules);

}  // namespace wmtp::checkpoint
