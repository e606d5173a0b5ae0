// `system/*` and `comm/*`: what the machines of all ranks are doing and what they wait for, reduced
// over the ranks beside a step that is reported.
#pragma once
#include <c10/core/Device.h>

#include "wmtp/config/config.h"
#include "wmtp/run/report/rank_numbers.h"
#include "wmtp/tracking/system/system_sampler.h"

namespace wmtp::run {

// What one report has of all ranks.
class SystemNumbers {
 public:
  SystemNumbers() = default;  // of a step that is not reported: both are empty
  // COLLECTIVE. `memory`: as report_memory gives it; `comm`: as CommFigures does.
  SystemNumbers(comm::Communicator& group, const training::Metrics& memory,
                const training::Metrics& comm, const tracking::SystemSummary& summary);

  // The memory that the ranks' processes use: the largest over them. Of communication NAME is the
  // mean over the ranks and NAME_max the largest. BLOCKS as RankNumbers does.
  training::Metrics measured();
  // Of the readings since the report before: NAME is the mean over the ranks of their means,
  // NAME_max the maximum over all, gpu_<rank>_NAME the mean of one of the first eight ranks. Empty
  // where this rank has read nothing since, so that points repeat nothing. BLOCKS the same.
  training::Metrics readings();

 private:
  std::size_t num_measured_ = 0;
  bool fresh_ = false;
  RankNumbers numbers_;
};

class SystemReport {
 public:
  // Reads the machine from now on, every tracking.system_interval_s.
  SystemReport(const config::Config& config, c10::Device device);
  // COLLECTIVE: this rank's numbers since the last call, on their way to all ranks. Those of
  // communication are left out where there is one rank.
  SystemNumbers gather(comm::Communicator& group, const training::Metrics& comm);

 private:
  c10::Device device_;
  tracking::SystemSampler sampler_;
};

}  // namespace wmtp::run
