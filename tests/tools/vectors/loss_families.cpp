// B rows, T positions, H heads, V vocabulary, N = B T packed tokens, P pairs.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "tools/vectors/families.h"
#include "tools/vectors/head_rows.h"
#include "tools/vectors/json_tensors.h"
#include "wmtp/kernels/cross_entropy.h"
#include "wmtp/losses/lambda_schedule.h"
#include "wmtp/losses/mtp_cross_entropy.h"
#include "wmtp/losses/value_loss.h"
#include "wmtp/losses/value_metrics.h"

namespace wmtp::vectors {
namespace {

using namespace losses;

// Attended tokens must come first in every row: right padding only.
void check_attention(const Tensor& attention_BT) {
  const Tensor rises = attention_BT.narrow(1, 1, attention_BT.size(1) - 1)
                           .gt(attention_BT.narrow(1, 0, attention_BT.size(1) - 1));
  if (rises.any().item<bool>())
    throw Error(ErrorKind::data, "vectors", "an attention mask is no prefix of ones");
}

struct CrossEntropyRows {
  Tensor logits_NHV;
  std::vector<HeadRows> heads;
  std::vector<Tensor> weights;  // per head [M]
};

CrossEntropyRows read_rows(const Json& in) {
  const Tensor z = tensor(in.at("z")), y = tensor(in.at("y")), a = tensor(in.at("a"));
  check_attention(a);
  CrossEntropyRows rows;
  rows.logits_NHV = z.reshape({z.size(0) * z.size(1), z.size(2), z.size(3)});
  const Tensor mask = a.ne(0).logical_and_(y.ne(-100)).to(kFloat64);
  rows.heads = head_rows(y, mask, z.size(2));
  const Tensor w = in.value("w", Json(nullptr)).is_null() ? Tensor() : tensor(in["w"]);
  for (std::size_t k = 0; k < rows.heads.size(); ++k) {
    const Tensor& rows_M = rows.heads[k].rows_M;
    const auto head = static_cast<std::int64_t>(k);
    if (!w.defined())
      rows.weights.push_back(at::full({rows_M.size(0)}, 1.0, z.options()));
    else if (w.dim() == 2)
      rows.weights.push_back(target_weights(w.reshape({-1}), rows_M, head + 1));
    else
      rows.weights.push_back(at::index_select(w.select(2, head).reshape({-1}), 0, rows_M));
  }
  return rows;
}

Json mtp_ce(const Json& in) {
  const CrossEntropyRows rows = read_rows(in);
  const auto normalization = static_cast<Normalization>(
      choice(text(in, "normalization", "tokens"), {"tokens", "weights", "weights_joint"}));
  std::vector<double> sums, normalizers;
  for (std::size_t k = 0; k < rows.heads.size(); ++k) {
    const Tensor logits_NV = rows.logits_NHV.select(1, static_cast<std::int64_t>(k));
    const Tensor head = head_sums(nll_of(logits_NV, rows.heads[k]), rows.weights[k]);
    sums.insert(sums.end(), head.data_ptr<double>(), head.data_ptr<double>() + kNumHeadSums);
    const bool by_tokens = normalization == Normalization::tokens;
    normalizers.push_back(head[by_tokens ? kNumTargets : kWeightTotal].item<double>());
  }
  const std::vector<double> scales = head_scales(normalizers, normalization);
  const Tensor dz_NHV = at::zeros_like(rows.logits_NHV);
  for (std::size_t k = 0; k < rows.heads.size(); ++k) {
    const HeadRows& head = rows.heads[k];
    if (head.rows_M.size(0) == 0) continue;
    const auto column = static_cast<std::int64_t>(k);
    const Tensor logits_MV = at::index_select(rows.logits_NHV.select(1, column), 0, head.rows_M);
    const Tensor nll_M = at::empty({head.rows_M.size(0)}, logits_MV.options());
    kernels::cross_entropy(
        {logits_MV, head.targets_M, nll_M, row_scales(rows.weights[k], scales[k]), {}});
    dz_NHV.select(1, column).index_copy_(0, head.rows_M.to(kInt64), logits_MV);
  }
  const MtpLoss loss = mtp_loss(sums, normalization).value_or(MtpLoss{});
  const Json& z = in.at("z");
  return {{"L", loss.weighted},
          {"Lu", loss.unweighted},
          {"dz", to_json(dz_NHV.view(
                     {static_cast<std::int64_t>(z.size()), -1, dz_NHV.size(1), dz_NHV.size(2)}))}};
}

// Documents in the order + - + -; both sides padded to one length.
Json pairwise(const Json& in) {
  const Tensor positive = tensor(in.at("v_pos")), negative = tensor(in.at("v_neg"));
  const Tensor mask_positive = tensor(in.at("m_pos")), mask_negative = tensor(in.at("m_neg"));
  const std::int64_t num_pairs = positive.size(0);
  const std::int64_t length = std::max(positive.size(1), negative.size(1));
  const auto interleave = [&](const Tensor& a, const Tensor& b) {
    const auto widen = [&](const Tensor& x) {
      return at::cat({x, at::zeros({num_pairs, length - x.size(1)}, x.options())}, 1);
    };
    return at::stack({widen(a), widen(b)}, 1).reshape({2 * num_pairs, length});
  };
  const Rows rows = rows_of(interleave(mask_positive, mask_negative));
  const Tensor roles = at::tensor(std::vector<int>{kPositive, kNegative}, at::kInt)
                           .to(kernels::kMaskType)
                           .repeat({num_pairs});
  const double pairs =
      mask_positive.ne(0).any(1).logical_and(mask_negative.ne(0).any(1)).sum().item<double>();
  const ValueLoss got = pairwise_loss(interleave(positive, negative).reshape({-1}), rows.responses,
                                      roles, {.pairs = pairs});
  const Tensor dv = got.dvalues_N.view({num_pairs, 2, length});
  return {{"loss", got.loss.item<double>()},
          {"dv_pos", to_json(dv.select(1, 0).narrow(1, 0, positive.size(1)))},
          {"dv_neg", to_json(dv.select(1, 1).narrow(1, 0, negative.size(1)))}};
}

Json value_loss_family(const Json& in) {
  ValueLossOptions options;
  options.type =
      static_cast<ValueLossType>(choice(text(in, "type", "mse"), {"mse", "lambda_return"}));
  options.loss_fn =
      static_cast<ValueLossFn>(choice(text(in, "loss_fn", "huber"), {"huber", "mse"}));
  options.huber_delta = number(in, "delta", options.huber_delta);
  options.gamma = number(in, "gamma", options.gamma);
  options.lambda = number(in, "lambda", options.lambda);
  options.reduction =
      static_cast<ValueReduction>(choice(text(in, "reduction", "sequence"), {"sequence", "token"}));
  const Tensor mask = tensor(in.at("m")), values_N = tensor(in.at("v")).view({-1});
  const Rows rows = rows_of(mask, tensor(in.at("R")));
  const ValueCounts counts{.sequences = mask.ne(0).any(1).sum().item<double>(),
                           .tokens = mask.ne(0).sum().item<double>()};
  const ValueLoss got = value_loss(options, values_N, rows.responses, counts);
  return {{"target", to_json(rows.grid(value_targets(options, values_N, rows.responses)))},
          {"loss", got.loss.item<double>()},
          {"dv", to_json(rows.grid(got.dvalues_N))}};
}

Json lambda_schedule(const Json& in) {
  LambdaSchedule schedule;
  schedule.type = static_cast<LambdaScheduleType>(
      choice(text(in, "type", "linear"), {"constant", "linear", "cosine"}));
  schedule.start = number(in, "start", schedule.start);
  schedule.end = number(in, "end", schedule.end);
  schedule.value = number(in, "value", number(in, "start", schedule.value));
  const auto steps_of = [&](const char* name, std::int64_t otherwise) {
    return static_cast<std::int64_t>(number(in, name, static_cast<double>(otherwise)));
  };
  schedule.warmup_steps = steps_of("warmup_steps", schedule.warmup_steps);
  schedule.decay_steps = steps_of("decay_steps", schedule.decay_steps);
  Json lambdas = Json::array();
  for (const double step : numbers(in.at("steps")))
    lambdas.push_back(lambda_at(schedule, static_cast<std::int64_t>(step)));
  return {{"lambda", lambdas}};
}

Json critic_metrics_family(const Json& in) {
  const Rows rows = rows_of(tensor(in.at("m")));
  const Tensor stats_DS = sequence_stats(tensor(in.at("v")).view({-1}), rows.responses);
  const auto column = [&](int stat) { return to_json(stats_DS.select(1, stat)); };
  return {{"token_variance", column(kernels::kStatVariance)},
          {"spikiness", column(kernels::kStatSpikiness)},
          {"mean_abs_td", column(kernels::kStatMeanAbsTd)},
          {"position_corr", column(kernels::kStatCorr)}};
}

}  // namespace

Families loss_families() {
  return {{"mtp_ce", mtp_ce},
          {"pairwise", pairwise},
          {"value_loss", value_loss_family},
          {"lambda_schedule", lambda_schedule},
          {"critic_metrics", critic_metrics_family}};
}

}  // namespace wmtp::vectors
