// What `wmtp doctor --cluster` makes of its measurements.
#pragma once
#include <string>
#include <vector>

#include "wmtp/cli/doctor/check.h"
#include "wmtp/cli/doctor/cluster_measure.h"
#include "wmtp/cli/doctor/rank_report.h"

namespace wmtp::cli {

struct ClusterFindings {
  std::string backend = {}, where = {};
  std::vector<RankReport> ranks = {};  // by rank, all of them
  std::vector<CollectiveSpeed> collectives = {};
  std::vector<PairSpeed> pairs = {};
  std::vector<ClockSkew> clocks = {};
};

std::vector<Check> check_cluster(const ClusterFindings& found);
OrderedJson to_json(const ClusterFindings& found);

}  // namespace wmtp::cli
