#include "wmtp/cli/doctor/cluster_exam.h"

#include <ATen/ops/full.h>

#include "wmtp/core/failpoint.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/tracking/point.h"

namespace wmtp::cli {
namespace {

constexpr std::chrono::seconds kLongest{300};

}  // namespace

ClusterFindings examine_cluster(comm::ProcessGroupSession& session, c10::Device device,
                                const std::optional<DiskSpeed>& disk) {
  session.watchdog().enter("doctor --cluster", kLongest);
  comm::Communicator& group = session.reduce_group();
  ClusterFindings found{session.backend(), session.where(), {}, {}, {}, {}};
  found.ranks = gather_reports(group, describe_rank(session, device, disk));
  found.collectives = time_collectives(group);
  const bool is_skewed = failpoint::pass("doctor.clock") == failpoint::Action::damage;
  found.clocks = compare_clocks(
      group, [is_skewed] { return tracking::wall_time_s() + (is_skewed ? 2.5 : 0); });
  found.pairs = time_pairs(group);
  return found;
}

bool any_rank(comm::ProcessGroupSession& session, bool mine) {
  comm::Communicator& group = session.reduce_group();
  const Tensor count_1 =
      at::full({1}, mine ? 1.0 : 0.0, c10::TensorOptions().dtype(kFloat64).device(group.device()));
  group.all_reduce(count_1, "any rank").wait();
  return count_1.item<double>() > 0;
}

}  // namespace wmtp::cli
