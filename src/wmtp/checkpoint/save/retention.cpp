#include "wmtp/checkpoint/save/retention.h"

#include <algorithm>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/checkpoint/format/removal.h"
#include "wmtp/checkpoint/load/reader.h"

namespace wmtp::checkpoint {
namespace {

constexpr int kAlwaysKept = 2;

enum class Standing { verified, damaged, foreign };

Standing standing_of(const storage::FileSystem& files, const std::filesystem::path& folder) {
  try {
    CheckpointReader(files, folder).check_headers();
    return Standing::verified;
  } catch (const DamageError&) {
    return Standing::damaged;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::config) return Standing::foreign;
    throw;
  }
}

}  // namespace

std::vector<std::string> plan_retention(const storage::FileSystem& files,
                                        const std::filesystem::path& save_dir,
                                        const std::string& model, const RetentionRules& rules) {
  if (!rules.keep) return {};
  std::set<std::string> kept = rules.pinned;
  for (const Pointer pointer : {Pointer::best, Pointer::final})
    if (const auto name = read_pointer(files, save_dir, model, pointer)) kept.insert(*name);
  const std::int64_t limit = std::max<std::int64_t>(*rules.keep, kAlwaysKept);
  std::vector<std::string> doomed;
  std::int64_t num_newest = 0;
  int num_verified = 0;
  for (const FoundCheckpoint& found : find_checkpoints(files, save_dir, model)) {
    if (found.step > rules.newest_step) continue;
    const bool newest = num_newest++ < limit;
    if (newest && num_verified >= kAlwaysKept) continue;
    if (num_verified < kAlwaysKept || !(newest || kept.contains(found.name))) {
      const Standing standing = standing_of(files, save_dir / found.name);
      if (standing != Standing::verified) continue;
      if (num_verified++ < kAlwaysKept) continue;
    }
    if (!newest && !kept.contains(found.name)) doomed.push_back(found.name);
  }
  std::reverse(doomed.begin(), doomed.end());
  return doomed;
}

std::vector<std::string> apply_retention(storage::FileSystem& files,
                                         const std::filesystem::path& save_dir,
                                         const std::string& model, const RetentionRules& rules) {
  const std::vector<std::string> doomed = plan_retention(files, save_dir, model, rules);
  for (const std::string& name : doomed) remove_checkpoint(files, save_dir / name);
  return doomed;
}

}  // namespace wmtp::checkpoint
