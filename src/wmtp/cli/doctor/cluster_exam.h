// `wmtp doctor --cluster` on one rank of several.
#pragma once
#include <optional>

#include "wmtp/cli/doctor/cluster_checks.h"
#include "wmtp/comm/session.h"

namespace wmtp::cli {

// COLLECTIVE, BLOCKS, about ten seconds. REQUIRES connect(). On rank 0 all that was found;
// elsewhere without the ranks' reports and clocks. `disk`: as RankReport has it.
ClusterFindings examine_cluster(comm::ProcessGroupSession& session, c10::Device device,
                                const std::optional<DiskSpeed>& disk);

// COLLECTIVE, BLOCKS. Whether it holds on any rank.
bool any_rank(comm::ProcessGroupSession& session, bool mine);

}  // namespace wmtp::cli
