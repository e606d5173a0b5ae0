// What a rank spends on a step itself, without what it waits for the other ranks: the ranks of a
// step all end it together, so only this tells who was late.
#pragma once
#include <optional>
#include <vector>

namespace wmtp::run {

struct OwnTime {
  double compute_s = 0, data_s = 0, comm_s = 0;
  double sum_s() const { return compute_s + data_s + comm_s; }
};

class OwnTimes {
 public:
  void add(const OwnTime& step) { steps_.push_back(step); }
  // The mean of the steps since the last call without the longest one, which may be a first step, a
  // full page cache or another accident; absent below three steps.
  std::optional<OwnTime> take();

 private:
  std::vector<OwnTime> steps_;
};

}  // namespace wmtp::run
