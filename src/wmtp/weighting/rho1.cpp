#include "wmtp/weighting/rho1.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/sort.h>
#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "wmtp/core/error.h"
#include "wmtp/kernels/responses.h"
#include "wmtp/kernels/top_k.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::weighting {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

Selection run(const Tensor& scores_M, const Tensor& valid_M, std::int64_t share_millionths) {
  const Selection selection{at::empty_like(scores_M),
                            at::empty({3}, scores_M.options().dtype(kFloat64))};
  kernels::top_k({scores_M, valid_M, share_millionths, selection.weights_M, selection.summary_3});
  return selection;
}

}  // namespace

std::int64_t share_in_millionths(double k_percent) {
  const std::int64_t share =
      k_percent >= 0 && k_percent <= 1 ? std::llround(k_percent * kMillion) : 0;
  if (share >= 1) return share;
  throw Error(ErrorKind::config, "weighting", fmt::format("rho1.k_percent is {}", k_percent),
              "it is a share of the targets, above 0 (at least a millionth) and at most 1");
}

std::int64_t selected_count(std::int64_t n, std::int64_t share_millionths) {
  return n <= 0 ? 0 : 1 + (n - 1) * share_millionths / kMillion;
}

Tensor scores(Rho1Mode mode, const Tensor& nll_M, const Tensor& reference_nll_M) {
  switch (mode) {
    case Rho1Mode::signed_excess:
      return nll_M - reference_nll_M;
    case Rho1Mode::absolute:
      return (nll_M - reference_nll_M).abs();
    case Rho1Mode::difficult:
      return reference_nll_M.to(nll_M.scalar_type());
  }
  WMTP_CHECK(false, "a rho1 mode that is none of the three");
}

Selection select(const Tensor& scores_M, std::int64_t share_millionths, const Tensor& valid_M) {
  const Tensor valid_bytes_M = valid_M.defined() ? valid_M.ne(0).to(kernels::kMaskType) : Tensor();
  return run(scores_M.contiguous(), valid_bytes_M, share_millionths);
}

// A stable sort keeps equal keys in order.
Tensor selected_places(const Tensor& weights_M, std::int64_t count, bool is_bound) {
  const auto [values, order] = at::sort(weights_M, /*stable=*/true, /*dim=*/0, /*descending=*/true);
  const Tensor places_C = order.narrow(0, 0, count);
  return (is_bound ? std::get<0>(at::sort(places_C)) : places_C).to(kInt32);
}

Selection select_over_ranks(const GatheredScores& gathered, std::int64_t share_millionths) {
  const Tensor& scores_RC = gathered.scores_RC;
  const Tensor place_C = at::arange(scores_RC.size(1), gathered.counts_R.options());
  const Tensor valid_RC = place_C.unsqueeze(0).lt(gathered.counts_R.unsqueeze(1));
  const Selection all = run(scores_RC.contiguous().view({-1}),
                            valid_RC.to(kernels::kMaskType).view({-1}), share_millionths);
  const Tensor own_M = all.weights_M.narrow(0, gathered.rank * scores_RC.size(1), gathered.num_own);
  return {own_M, all.summary_3};
}

Tensor bad_losses(const Tensor& nll_M) {
  return nll_M.isfinite().logical_not_().sum(kInt64);
}

}  // namespace wmtp::weighting
