// Which checkpoints in a bucket may go. By step numbers, as in checkpoint/save/retention.h.
#pragma once
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "wmtp/s3/bucket.h"

namespace wmtp::run {

struct RemoteCheckpoint {
  std::string name;
  std::int64_t step = 0;
  bool has_manifest = true;  // false: begun and given up, or half removed
};

struct RemoteRules {
  std::int64_t keep = 3;            // newest with a manifest
  std::set<std::string> kept = {};  // names that stay: pointers name them, or they are on their way
  // Later ones are left alone: they are of a line that a rewound run has left.
  std::int64_t newest_step = std::numeric_limits<std::int64_t>::max();
};

// The names to remove, the oldest first.
std::vector<std::string> plan_remote_retention(std::vector<RemoteCheckpoint> found,
                                               const RemoteRules& rules);

// BLOCKS. Looks, and removes by that plan, manifests first; what -best and -final name there stays.
// Returns what was removed.
std::vector<std::string> apply_remote_retention(s3::Bucket& bucket, const std::string& model,
                                                RemoteRules rules);

}  // namespace wmtp::run
