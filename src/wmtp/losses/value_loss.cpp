#include "wmtp/losses/value_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/response_stats.h"
#include "wmtp/kernels/value_scan.h"

namespace wmtp::losses {
namespace {

// v - target of response tokens in fp64, 0 elsewhere.
Tensor errors(const Tensor& values_N, const Tensor& targets_N, const Tensor& is_in_N) {
  return at::where(is_in_N, values_N.to(kFloat64) - targets_N.to(kFloat64), 0.0);
}

Tensor count_bad(const Tensor& values_N, const Tensor& is_in_N) {
  return values_N.isfinite().logical_not_().logical_and_(is_in_N).sum(kInt64);
}

Tensor stats_of(const Tensor& values_N, const kernels::Responses& docs) {
  const Tensor stats_DS =
      at::empty({docs.num_docs(), kernels::kNumResponseStats}, values_N.options().dtype(kFloat64));
  kernels::response_stats(values_N, docs, stats_DS);
  return stats_DS;
}

enum WhichCount : std::int64_t { kSequences, kTokens, kPairs };

double count_on_host(const ValueCounts& counts, WhichCount which) {
  return which == kSequences ? counts.sequences : which == kTokens ? counts.tokens : counts.pairs;
}

// 0-d: 1 / count, 0 for none.
Tensor share_of(const ValueCounts& counts, WhichCount which, const at::TensorOptions& wide) {
  if (!counts.counts_3.defined()) {
    const double count = count_on_host(counts, which);
    return at::zeros({}, wide).add_(count > 0 ? 1 / count : 0);
  }
  const Tensor count = counts.counts_3.select(0, which);
  return at::where(count.gt(0), count.reciprocal(), 0.0);
}

// 1 / (tokens of the response * sequences) of each token.
Tensor shares_of_means(const Tensor& tokens_N, const ValueCounts& counts) {
  if (!counts.counts_3.defined()) return tokens_N.mul(counts.sequences).reciprocal_();
  const Tensor sequences = counts.counts_3.select(0, kSequences);
  return at::where(sequences.gt(0), tokens_N.mul(sequences).reciprocal_(), 0.0);
}

// What one token's loss counts for in the step's.
Tensor shares(const ValueLossOptions& options, const Tensor& values_N,
              const kernels::Responses& docs, const ValueCounts& counts) {
  const auto wide = values_N.options().dtype(kFloat64);
  if (options.reduction == ValueReduction::token) return share_of(counts, kTokens, wide);
  const bool is_empty = !counts.counts_3.defined() && counts.sequences <= 0;
  if (is_empty) return at::zeros({}, wide);
  const Tensor count_D = stats_of(values_N, docs).select(1, kernels::kStatCount);
  return shares_of_means(at::index_select(count_D, 0, docs.document_N), counts);
}

struct LossAndSlope {
  Tensor loss_N, slope_N;
};

LossAndSlope per_token(const ValueLossOptions& options, const Tensor& error_N) {
  const bool huber =
      options.type == ValueLossType::lambda_return && options.loss_fn == ValueLossFn::huber;
  if (!huber) return {error_N.square(), 2 * error_N};
  const double delta = options.huber_delta;
  const Tensor is_near = error_N.abs().lt(delta);
  return {at::where(is_near, error_N.square() / (2 * delta), error_N.abs() - delta / 2),
          at::where(is_near, error_N / delta, error_N.sign())};
}

kernels::Responses with_reward_of(const kernels::Responses& docs, const Tensor& values_N) {
  kernels::Responses out = docs;
  out.reward_D = docs.reward_D.to(values_N.scalar_type());
  return out;
}

struct Targets {
  Tensor targets_N, bad;
};

Targets targets_and_bad(const ValueLossOptions& options, const Tensor& values_N,
                        const kernels::Responses& docs) {
  const Tensor is_in_N = docs.mask_N.ne(0);
  const kernels::Responses same = with_reward_of(docs, values_N);
  if (options.type == ValueLossType::mse)
    return {at::where(is_in_N, at::index_select(same.reward_D, 0, docs.document_N), 0.0),
            count_bad(values_N, is_in_N)};
  WMTP_CHECK(options.type == ValueLossType::lambda_return, "pairs have no target per token");
  const Tensor bad_D = at::empty({docs.num_docs()}, values_N.options().dtype(kInt32));
  kernels::ValueScan scan{
      kernels::ScanKind::lambda_return, options.gamma, options.lambda, 0, values_N, same,
      at::empty_like(values_N),         bad_D};
  if (options.lambda_1.defined()) scan.lambda_1 = options.lambda_1.to(values_N.scalar_type());
  kernels::value_scan(scan);
  return {scan.out_N, bad_D.sum(kInt64)};
}

}  // namespace

void check(const ValueLossOptions& options) {
  const auto refuse = [](const std::string& fact, const char* hint) {
    throw Error(ErrorKind::config, "losses", fact, hint);
  };
  if (!(options.huber_delta > 0))
    refuse(fmt::format("value_loss.huber_delta is {}", options.huber_delta), "it must be above 0");
  if (!(options.gamma > 0 && options.gamma <= 1))
    refuse(fmt::format("value_loss.gamma is {}", options.gamma), "it must lie in (0, 1]");
  if (!(options.lambda >= 0 && options.lambda <= 1))
    refuse(fmt::format("lambda of the lambda-return is {}", options.lambda),
           "it must lie in [0, 1]");
}

Tensor value_targets(const ValueLossOptions& options, const Tensor& values_N,
                     const kernels::Responses& docs) {
  check(options);
  return targets_and_bad(options, values_N, docs).targets_N;
}

ValueLoss value_loss(const ValueLossOptions& options, const Tensor& values_N,
                     const kernels::Responses& docs, const ValueCounts& counts) {
  check(options);
  const Targets targets = targets_and_bad(options, values_N, docs);
  const Tensor is_in_N = docs.mask_N.ne(0);
  const LossAndSlope token = per_token(options, errors(values_N, targets.targets_N, is_in_N));
  const Tensor share = shares(options, values_N, docs, counts);
  const Tensor loss_N = at::where(is_in_N, token.loss_N * share, 0.0);
  const Tensor slope_N = at::where(is_in_N, token.slope_N * share, 0.0);
  return {loss_N.sum(), slope_N.to(values_N.scalar_type()), targets.bad};
}

ValueLoss pairwise_loss(const Tensor& values_N, const kernels::Responses& docs,
                        const Tensor& pair_role_D, const ValueCounts& counts) {
  const Tensor is_in_N = docs.mask_N.ne(0), stats_DS = stats_of(values_N, docs);
  const PairGaps pairs = pair_gaps(stats_DS, pair_role_D);
  const Tensor share = share_of(counts, kPairs, stats_DS.options());
  const Tensor loss_D = at::where(pairs.is_pair_D, at::softplus(pairs.gap_D.neg()) * share, 0.0);
  const Tensor slope_D =
      at::where(pairs.is_pair_D, at::sigmoid(pairs.gap_D.neg()) * share.neg(), 0.0);
  const Tensor dmean_D = (slope_D - of_previous(slope_D)) / stats_DS.select(1, kernels::kStatCount);
  const Tensor in_pair_D = pairs.is_pair_D.logical_or(of_previous(pairs.is_pair_D));
  const Tensor is_read_N = at::index_select(in_pair_D, 0, docs.document_N).logical_and_(is_in_N);
  const Tensor dvalues_N = at::where(is_read_N, at::index_select(dmean_D, 0, docs.document_N), 0.0);
  return {loss_D.sum(), dvalues_N.to(values_N.scalar_type()), count_bad(values_N, is_read_N)};
}

Tensor value_mse_sums(const Tensor& values_N, const kernels::Responses& docs) {
  const Tensor is_in_N = docs.mask_N.ne(0);
  const Tensor rewards_N = at::index_select(docs.reward_D, 0, docs.document_N);
  return at::stack({errors(values_N, rewards_N, is_in_N).square().sum(), is_in_N.sum(kFloat64)});
}

}  // namespace wmtp::losses
