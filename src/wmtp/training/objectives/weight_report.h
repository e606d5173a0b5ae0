// Statistics of the weights of a step, pooled over ranks: slots "weights" and "weight_range".
#pragma once
#include "wmtp/training/objective.h"
#include "wmtp/weighting/weight_stats.h"

namespace wmtp::training {

class WeightReport {
 public:
  void add_slots(TotalsLayout& layout) const;
  void begin_step() { range_2_ = Tensor(); }
  // mask_N undefined: every entry counts.
  void add(const Tensor& weights_N, const Tensor& mask_N, Totals& totals);
  void close(Totals& totals);  // before the sum over ranks
  static void read(const HostTotals& totals, Metrics& metrics);

 private:
  Tensor range_2_;  // of the step so far
};

}  // namespace wmtp::training
