// What `wmtp doctor --s3` says about the way to a bucket.
#pragma once
#include <vector>

#include "wmtp/cli/doctor/check.h"
#include "wmtp/s3/options.h"

namespace wmtp::cli {

// One finding a line, in the order of the way there; it ends at the first without which the others
// make no sense. Writes one small object below the prefix, and removes it. BLOCKS for the network,
// about a minute at most.
std::vector<Check> check_s3(s3::Options options);

}  // namespace wmtp::cli
