#include "wmtp/training/objectives/weight_report.h"

#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/stack.h>

namespace wmtp::training {

void WeightReport::add_slots(TotalsLayout& layout) const {
  layout.add("weights", weighting::kNumWeightSums);
  layout.add_per_rank("weight_range", 3);
}

void WeightReport::add(const Tensor& weights_N, const Tensor& mask_N, Totals& totals) {
  totals["weights"].add_(weighting::weight_sums(weights_N, mask_N));
  const Tensor range = weighting::weight_range(weights_N, mask_N);
  range_2_ =
      range_2_.defined()
          ? at::stack({at::minimum(range_2_[0], range[0]), at::maximum(range_2_[1], range[1])})
          : range;
}

void WeightReport::close(Totals& totals) {
  if (range_2_.defined()) totals["weight_range"].copy_(weighting::pack_range(range_2_));
  range_2_ = Tensor();
}

void WeightReport::read(const HostTotals& totals, Metrics& metrics) {
  const auto stats =
      weighting::weight_stats(totals.values("weights"), totals.values("weight_range"));
  if (!stats) return;
  metrics.emplace_back("weight/mean", stats->mean);
  metrics.emplace_back("weight/std", stats->std);
  metrics.emplace_back("weight/min", stats->min);
  metrics.emplace_back("weight/max", stats->max);
  if (stats->entropy) metrics.emplace_back("weight/entropy", *stats->entropy);
}

}  // namespace wmtp::training
