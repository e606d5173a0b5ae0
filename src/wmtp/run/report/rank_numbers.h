// A few numbers of every rank, gathered beside a step and read with it: the host waits for them no
// longer than for the step.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/training/objective.h"

namespace wmtp::run {

enum class Reduction { mean, maximum };

struct RankNumber {
  std::string name;
  double value = 0;  // NaN: this rank has none
  Reduction over_ranks = Reduction::maximum;
};

class RankNumbers {
 public:
  RankNumbers() = default;  // of no rank: reduced() is empty
  // COLLECTIVE: every rank gives the same names in the same order.
  RankNumbers(comm::Communicator& group, std::vector<RankNumber> mine);

  // Row r: the values of rank r in their order. BLOCKS until all have given theirs.
  const std::vector<std::vector<double>>& rows();
  // `count` of the numbers from the `first` on, over the ranks that have them; without those that
  // no rank has. BLOCKS the same.
  training::Metrics reduced(std::size_t first = 0, std::size_t count = SIZE_MAX);

 private:
  std::vector<RankNumber> mine_;
  Tensor all_RK_;  // row r: the numbers of rank r
  comm::Work work_;
  std::vector<std::vector<double>> rows_;  // read before
};

}  // namespace wmtp::run
