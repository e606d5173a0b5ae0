#include "wmtp/training/objectives/rho1.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/failpoint.h"
#include "wmtp/tensor/copy_to_device.h"

namespace wmtp::training {
namespace {

// Slot "rho1_<k>" of a head: selected, sum of p - q, sum of thresholds, scopes that had one.
enum { kSelected, kExcess, kThreshold, kScopes, kNumRho1Sums };

std::string slot(int head) {
  return fmt::format("rho1_{}", head);
}

}  // namespace

Rho1::Rho1(PolicyViews policy, FrozenModel* reference, const Rho1Options& options,
           comm::Communicator& group)
    : policy_(policy),
      reference_(reference),
      options_(options),
      share_(weighting::share_in_millionths(options.k_percent)),
      group_(group),
      heads_(policy.trained.config().n_future, options.normalization) {}

void Rho1::add_slots(TotalsLayout& layout) const {
  heads_.add_slots(layout);
  report_.add_slots(layout);
  for (int head = 0; head < heads_.num_heads(); ++head) layout.add(slot(head), kNumRho1Sums);
}

bool Rho1::has_targets(const StepFacts& facts) const {
  return any_target(facts);
}

std::int64_t Rho1::targets_of(const std::vector<std::int64_t>& scope_targets, std::size_t index,
                              int rank, int head) const {
  const auto world = static_cast<std::size_t>(group_.world());
  const auto heads = static_cast<std::size_t>(heads_.num_heads());
  return scope_targets.at((index * world + static_cast<std::size_t>(rank)) * heads +
                          static_cast<std::size_t>(head));
}

// N_k: all valid targets, or how many will be selected, which follows from counts alone.
std::vector<double> Rho1::step_numbers(const StepFacts& facts) const {
  std::vector<double> counts = target_counts(facts);
  if (options_.normalization == losses::Normalization::tokens) return counts;
  const auto per_step = static_cast<std::size_t>(group_.world() * heads_.num_heads());
  const std::size_t num_micro_batches = facts.scope_targets.size() / per_step;
  for (int head = first_selected(); head < heads_.num_heads(); ++head) {
    std::int64_t selected = 0;
    for (std::size_t index = 0; index < num_micro_batches; ++index) {
      std::int64_t over_ranks = 0;
      for (int rank = 0; rank < group_.world(); ++rank) {
        const std::int64_t n = targets_of(facts.scope_targets, index, rank, head);
        over_ranks += n;
        if (!options_.scope_ranks) selected += weighting::selected_count(n, share_);
      }
      if (options_.scope_ranks) selected += weighting::selected_count(over_ranks, share_);
    }
    counts[static_cast<std::size_t>(head)] = static_cast<double>(selected);
  }
  return counts;
}

void Rho1::prepare(std::span<DeviceBatch> batches) {
  for (DeviceBatch& batch : batches) batch.ref_nll_N = reference_nll(batch);
}

void Rho1::begin_step(const StepFacts& facts, std::span<const DeviceBatch>) {
  scope_targets_ = facts.scope_targets;
  report_.begin_step();
  if (facts.numbers.defined())
    heads_.set_scales(facts.numbers, facts.loss_scale);
  else
    heads_.set_scales(step_numbers(facts), facts.loss_scale);
}

Tensor Rho1::reference_nll(const DeviceBatch& batch) {
  if (batch.ref_nll_N.defined()) return batch.ref_nll_N;
  return reference_ ? reference_->next_token_nll(batch) : unread_signal(batch);
}

std::vector<std::int32_t> Rho1::planned_counts(std::size_t index, int head) const {
  std::vector<std::int32_t> counts;
  for (int rank = 0; options_.scope_ranks && rank < group_.world(); ++rank)
    counts.push_back(static_cast<std::int32_t>(targets_of(scope_targets_, index, rank, head)));
  return counts;
}

std::vector<std::int32_t> Rho1::gathered_counts(std::int64_t mine) {
  std::vector<std::int32_t> counts;
  if (!options_.scope_ranks) return counts;
  for (const std::string& theirs :
       group_.gather_bytes(std::to_string(mine), comm::Communicator::kAllRanks, "selection"))
    counts.push_back(std::stoi(theirs));
  return counts;
}

weighting::Selection Rho1::select(const Tensor& scores_M, std::span<const std::int32_t> counts_R) {
  if (!options_.scope_ranks) return weighting::select(scores_M, share_);
  const std::int64_t longest = *std::max_element(counts_R.begin(), counts_R.end());
  const Tensor mine = at::zeros({longest}, scores_M.options());
  mine.narrow(0, 0, scores_M.size(0)).copy_(scores_M);
  const Tensor all_RC = at::empty({group_.world(), longest}, scores_M.options());
  group_.all_gather(all_RC.view(-1), mine, "scores").wait();
  return weighting::select_over_ranks({.scores_RC = all_RC,
                                       .counts_R = copy_to_device(counts_R, scores_M.device()),
                                       .rank = group_.rank(),
                                       .num_own = scores_M.size(0)},
                                      share_);
}

RowWeights Rho1::weigh(std::size_t index, const Compared& rows, const Totals& totals) {
  if (rows.head < first_selected()) return {};
  const bool fills_up = rows.present_M.defined();
  const std::int64_t size = rows.nll_M.size(0);
  const Tensor scores_M = weighting::scores(options_.mode, rows.nll_M, rows.q_M);
  const auto chosen = fills_up ? weighting::select(scores_M, share_, rows.present_M)
                               : select(scores_M, planned_counts(index, rows.head));
  const Tensor sums = totals[slot(rows.head)];
  if (options_.scope_ranks ? group_.rank() == 0 : size > 0) {
    sums.narrow(0, kThreshold, 1).add_(chosen.summary_3.select(0, 2).nan_to_num(0));
    sums.narrow(0, kScopes, 1).add_(chosen.summary_3.select(0, 0).gt(0).to(at::kDouble));
  }
  if (options_.scope_ranks) return {chosen.weights_M, {}};
  const std::int64_t count = weighting::selected_count(size, share_);
  return {chosen.weights_M, weighting::selected_places(chosen.weights_M, count, fills_up)};
}

void Rho1::add_sums(const Compared& rows, const Tensor& weight_M, Totals& totals) {
  const Tensor& present_M = rows.present_M;
  Tensor weights_M = weight_M, excess_M = rows.nll_M.sub(rows.q_M);
  if (!weights_M.defined()) weights_M = present_M.defined() ? present_M : at::ones_like(rows.nll_M);
  if (present_M.defined()) excess_M = at::where(present_M.eq(0), 0.0, excess_M);
  const Tensor sums = totals[slot(rows.head)];
  sums.narrow(0, kSelected, 1).add_(weights_M.sum(at::kDouble));
  sums.narrow(0, kExcess, 1).add_(excess_M.sum(at::kDouble));
  totals["bad"].add_(weighting::bad_losses(rows.q_M));
  report_.add(weights_M, present_M, totals);
}

void Rho1::run(std::size_t index, const DeviceBatch& batch, Totals& totals) {
  const Tensor ref_nll_N = reference_nll(batch);
  model::TrunkPass trunk = policy_.trained.forward_trunk(batch.model);
  failpoint::pass("step.forward.mid");
  const auto compared = [&](int head, const Tensor& nll_M) -> Compared {
    return {head, nll_M, at_targets(ref_nll_N, batch.model, head),
            batch.model.heads[static_cast<std::size_t>(head)].present_M};
  };
  heads_.run(
      policy_.trained, trunk, batch.model,
      [&](int head, const Tensor& nll_M) { return weigh(index, compared(head, nll_M), totals); },
      first_selected(), totals,
      [&](int head, const Tensor& nll_M, const RowWeights& rows) {
        add_sums(compared(head, nll_M), rows.weight_M, totals);
      });
  failpoint::pass("step.backward.mid");
  policy_.trained.backward_trunk(std::move(trunk), batch.model);
}

Numbers Rho1::read(const StepFacts& facts, const HostTotals& totals) const {
  Numbers numbers;
  Metrics& metrics = numbers.metrics;
  const auto loss = heads_.read(totals);
  if (!loss) return numbers;
  numbers.loss = loss->weighted;
  metrics.emplace_back("train/weighted_ce_loss", loss->weighted);
  metrics.emplace_back("train/unweighted_ce_loss", loss->unweighted);
  metrics.emplace_back("train/loss_ratio", loss->weighted / std::max(loss->unweighted, 1e-8));
  HeadLosses::add_head_metrics(*loss, "train", metrics);
  double selected = 0, valid = 0;
  for (int head = 0; head < heads_.num_heads(); ++head) {
    const auto sums = totals.values(slot(head));
    const auto n = static_cast<double>(facts.head_targets[static_cast<std::size_t>(head)]);
    selected += sums[kSelected];
    valid += n;
    if (n == 0) continue;
    const std::string of = fmt::format("rho1/head{}_", head);
    metrics.emplace_back(of + "count", sums[kSelected]);
    metrics.emplace_back(of + "ratio", sums[kSelected] / n);
    if (sums[kScopes] > 0) metrics.emplace_back(of + "threshold", sums[kThreshold] / sums[kScopes]);
    metrics.emplace_back(of + "excess", sums[kExcess] / n);
  }
  metrics.emplace_back("train/selection_ratio", selected / valid);
  if (facts.num_response_tokens > 0)
    metrics.emplace_back("train/avg_heads_per_pos",
                         selected / static_cast<double>(facts.num_response_tokens));
  WeightReport::read(totals, metrics);
  return numbers;
}

void Rho1::begin_evaluation(const StepFacts&) {
  const auto heads = static_cast<std::size_t>(heads_.num_heads());
  policy_losses_.assign(heads, {});
  reference_losses_.assign(heads, {});
}

void Rho1::evaluate(const DeviceBatch& batch, Totals& totals) {
  const Tensor ref_nll_N = reference_nll(batch);
  const model::TrunkPass trunk = policy_.read.forward_trunk(batch.model);
  auto keep = [&](int head, const Tensor& nll_M) -> RowWeights {
    const auto k = static_cast<std::size_t>(head);
    policy_losses_[k].push_back(nll_M.to(at::kCPU, at::kFloat));
    reference_losses_[k].push_back(
        at_targets(ref_nll_N, batch.model, head).to(at::kCPU, at::kFloat));
    return {};
  };
  heads_.evaluate(policy_.read, trunk, batch.model, keep, totals);
}

namespace {

// All ranks' values in rank order: the flat order in which ties are settled.
Tensor gathered(const std::vector<Tensor>& parts, comm::Communicator& group) {
  const Tensor mine = parts.empty() ? at::empty({0}, at::kFloat) : at::cat(parts);
  const std::string bytes(reinterpret_cast<const char*>(mine.const_data_ptr<float>()),
                          mine.nbytes());
  std::vector<Tensor> all;
  for (const std::string& part :
       group.gather_bytes(bytes, comm::Communicator::kAllRanks, "selection")) {
    Tensor values = at::empty({static_cast<std::int64_t>(part.size() / sizeof(float))}, at::kFloat);
    std::copy(part.begin(), part.end(), reinterpret_cast<char*>(values.data_ptr<float>()));
    all.push_back(std::move(values));
  }
  return at::cat(all);
}

}  // namespace

Numbers Rho1::finish_evaluation(Totals& totals, comm::Communicator& group) {
  totals.reduce(group, "validation");
  Numbers numbers;
  std::vector<double> sums;
  std::vector<double> excess;
  for (int head = 0; head < heads_.num_heads(); ++head) {
    const auto k = static_cast<std::size_t>(head);
    const Tensor p_M = gathered(policy_losses_[k], group);
    const Tensor q_M = gathered(reference_losses_[k], group);
    const Tensor weights_M =
        head < first_selected() || p_M.size(0) == 0
            ? at::ones_like(p_M)
            : weighting::select(weighting::scores(options_.mode, p_M, q_M), share_).weights_M;
    const Tensor of_head = losses::head_sums(p_M, weights_M);
    sums.insert(sums.end(), of_head.data_ptr<double>(),
                of_head.data_ptr<double>() + losses::kNumHeadSums);
    excess.push_back(p_M.size(0) > 0 ? p_M.sub(q_M).mean(at::kDouble).item<double>() : NAN);
  }
  const auto loss = losses::mtp_loss(sums, options_.normalization);
  if (!loss) return numbers;
  numbers.loss = loss->unweighted;
  numbers.metrics.emplace_back("val/weighted_ce_loss", loss->weighted);
  numbers.metrics.emplace_back("val/unweighted_ce_loss", loss->unweighted);
  if (loss->head_losses[0])
    numbers.metrics.emplace_back("val/head0_ce_loss", *loss->head_losses[0]);
  // The first head that is selected by default speaks for the excess.
  const double reported = excess[excess.size() > 1 ? 1 : 0];
  if (!std::isnan(reported)) numbers.metrics.emplace_back("val/excess_loss", reported);
  HeadLosses::add_head_metrics(*loss, "val", numbers.metrics);
  return numbers;
}

TokenMarks Rho1::view(const DeviceBatch& batch) {
  const Tensor ref_nll_N = reference_nll(batch);
  const model::TrunkPass trunk = policy_.read.forward_trunk(batch.model);
  TokenMarks view;
  for (int head = 0; head < heads_.num_heads(); ++head) {
    const model::HeadPass pass = policy_.read.forward_head(trunk, batch.model, head);
    const Tensor nll_M = policy_.read.nll(trunk, pass, batch.model);
    const Tensor q_M = at_targets(ref_nll_N, batch.model, head);
    const Tensor weights_M =
        head < first_selected()
            ? at::ones_like(nll_M)
            : select(weighting::scores(options_.mode, nll_M, q_M), gathered_counts(nll_M.size(0)))
                  .weights_M;
    const Tensor& rows_M = batch.model.heads[static_cast<std::size_t>(head)].rows_M;
    view.selected_by_head_N.push_back(
        at::zeros({batch.model.num_tokens()}, weights_M.options())
            .index_copy_(0, rows_M.to(at::kLong).add(head + 1), weights_M));
  }
  view.weight_N = view.selected_by_head_N.front();
  return view;
}

}  // namespace wmtp::training
