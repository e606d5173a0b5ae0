// What each rank says of itself to `wmtp doctor --cluster`.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/cli/doctor/machine_checks.h"
#include "wmtp/comm/session.h"
#include "wmtp/core/json.h"
#include "wmtp/tracking/system/gpu_health.h"

namespace wmtp::cli {

struct RankReport {
  int rank = 0;
  std::string host = {};  // with the node's number where there are several
  std::map<std::string, std::string> versions = {};  // must be the same: of wmtp, LibTorch, NCCL
  std::map<std::string, std::string> machine = {};   // should be: of the driver and the kernel
  std::optional<DiskSpeed> disk = {};                // of a node's first rank
  std::optional<tracking::GpuHealth> gpu = {};       // none: the rank has no GPU
};

// `disk`: as this node's first rank has measured it.
RankReport describe_rank(const comm::ProcessGroupSession& session, c10::Device device,
                         const std::optional<DiskSpeed>& disk);

OrderedJson to_json(const RankReport& report);
// Error data where it is none.
RankReport rank_report_from_json(const Json& json);

// COLLECTIVE, BLOCKS. Those of all ranks, on rank 0; empty elsewhere.
std::vector<RankReport> gather_reports(comm::Communicator& group, const RankReport& mine);

}  // namespace wmtp::cli
