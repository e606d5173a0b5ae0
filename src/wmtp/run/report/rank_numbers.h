// A few numbers of every rank, gathered beside a step and read with it: the host waits for them no
// longer than for the step.
#pragma once
#include <string>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/training/objective.h"

namespace wmtp::run {

class RankNumbers {
 public:
  RankNumbers() = default;  // of no rank: maximum() is empty
  // COLLECTIVE: every rank gives the same names in the same order.
  RankNumbers(comm::Communicator& group, const training::Metrics& mine);

  // The largest over the ranks, by name. BLOCKS until all have given theirs.
  training::Metrics maximum();

 private:
  training::Metrics mine_;
  Tensor all_RK_;  // row r: the numbers of rank r
  comm::Work work_;
};

}  // namespace wmtp::run
