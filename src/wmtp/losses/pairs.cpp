#include "wmtp/losses/pairs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "wmtp/kernels/response_stats.h"

namespace wmtp::losses {

Tensor of_next(const Tensor& values_D) {
  const std::int64_t size = values_D.size(0);
  if (size == 0) return values_D;
  return at::cat({values_D.narrow(0, 1, size - 1), at::zeros({1}, values_D.options())});
}

Tensor of_previous(const Tensor& values_D) {
  const std::int64_t size = values_D.size(0);
  if (size == 0) return values_D;
  return at::cat({at::zeros({1}, values_D.options()), values_D.narrow(0, 0, size - 1)});
}

PairGaps pair_gaps(const Tensor& stats_DS, const Tensor& role_D) {
  const Tensor has_response_D = stats_DS.select(1, kernels::kStatCount).gt(0),
               mean_D = stats_DS.select(1, kernels::kStatMean);
  const Tensor is_pair_D = role_D.eq(kPositive)
                               .logical_and_(of_next(role_D.eq(kNegative)))
                               .logical_and_(has_response_D)
                               .logical_and_(of_next(has_response_D));
  return {is_pair_D, at::where(is_pair_D, mean_D - of_next(mean_D), 0.0)};
}

}  // namespace wmtp::losses
