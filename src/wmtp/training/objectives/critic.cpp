#include "wmtp/training/objectives/critic.h"

#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "wmtp/core/failpoint.h"

namespace wmtp::training {

void add_critic_metrics(const losses::CriticMetrics& found, std::string_view prefix,
                        Metrics& metrics) {
  auto add = [&](std::string name, const std::optional<double>& value) {
    if (value) metrics.emplace_back(fmt::format("{}/{}", prefix, name), *value);
  };
  add("mean_pos", found.positive.mean);
  add("mean_neg", found.negative.mean);
  add("margin", found.margin);
  for (const auto& [side, numbers] :
       {std::pair{"pos", &found.positive}, {"neg", &found.negative}}) {
    add(fmt::format("{}_token_variance", side), numbers->token_variance);
    add(fmt::format("{}_spikiness", side), numbers->spikiness);
    add(fmt::format("{}_mean_abs_td", side), numbers->mean_abs_td);
    add(fmt::format("{}_position_corr", side), numbers->position_corr);
  }
}

Critic::Critic(PolicyViews backbone, ValuePath& value, ValuePath& read_value,
               const CriticOptions& options)
    : backbone_(backbone), value_(value), read_value_(read_value), options_(options) {
  losses::check(options.loss);
}

void Critic::add_slots(TotalsLayout& layout) const {
  layout.add("value_loss");
  layout.add("critic", losses::kNumCriticSums);
}

bool Critic::has_targets(const StepFacts& facts) const {
  return options_.loss.type == losses::ValueLossType::pairwise_ranking ? facts.num_pairs > 0
                                                                       : facts.num_sequences > 0;
}

std::vector<double> Critic::step_numbers(const StepFacts& facts) const {
  return value_numbers(facts, options_.lambda_schedule);
}

void Critic::begin_step(const StepFacts& facts, std::span<const DeviceBatch>) {
  terms_ = value_terms(options_.loss, options_.lambda_schedule, facts);
  loss_scale_ = facts.loss_scale;
}

losses::ValueLoss Critic::loss_of(const Tensor& values_N, const DeviceBatch& batch) const {
  if (options_.loss.type == losses::ValueLossType::pairwise_ranking)
    return losses::pairwise_loss(values_N, batch.docs, batch.pair_role_D, terms_.counts);
  return losses::value_loss(terms_.loss, values_N, batch.docs, terms_.counts);
}

Tensor Critic::roles(const DeviceBatch& batch) const {
  return options_.pairs ? batch.pair_role_D : losses::roles_from_rewards(batch.docs.reward_D);
}

void Critic::add_numbers(const Tensor& values_N, const DeviceBatch& batch,
                         const losses::ValueLoss& loss, Totals& totals) {
  const Tensor stats_DS = losses::sequence_stats(values_N, batch.docs);
  totals["value_loss"].add_(loss.loss);
  totals["bad"].add_(loss.bad);
  totals["critic"].add_(losses::critic_sums(stats_DS, roles(batch)));
}

void Critic::run(std::size_t, const DeviceBatch& batch, Totals& totals) {
  model::Transformer& backbone = options_.backbone_learns ? backbone_.trained : backbone_.read;
  model::TrunkPass trunk = backbone.forward_trunk(batch.model);
  failpoint::pass("step.forward.mid");
  ValuePath::Pass pass = value_.forward(trunk, batch.model);
  const losses::ValueLoss loss = loss_of(pass.values_N(), batch);
  add_numbers(pass.values_N(), batch, loss, totals);
  value_.backward(trunk, std::move(pass), scaled(loss.dvalues_N, options_.coef, loss_scale_),
                  options_.backbone_learns ? ValuePath::Reach::trunk : ValuePath::Reach::head);
  failpoint::pass("step.backward.mid");
  if (options_.backbone_learns) backbone.backward_trunk(std::move(trunk), batch.model);
}

Numbers Critic::read(const StepFacts& facts, const HostTotals& totals) const {
  Numbers numbers;
  numbers.loss = options_.coef * totals.value("value_loss");
  const losses::CriticMetrics found = losses::critic_metrics(totals.values("critic"));
  // Rows that stand side by side by chance are no pairs.
  if (options_.pairs && found.pairwise_accuracy)
    numbers.metrics.emplace_back("train/pairwise_accuracy", *found.pairwise_accuracy);
  if (options_.loss.type == losses::ValueLossType::lambda_return)
    numbers.metrics.emplace_back("train/lambda",
                                 losses::lambda_at(options_.lambda_schedule, facts.step));
  add_critic_metrics(found, "value", numbers.metrics);
  return numbers;
}

void Critic::begin_evaluation(const StepFacts& facts) {
  terms_ = validation_terms(options_.loss, facts);
  stats_.clear();
}

void Critic::evaluate(const DeviceBatch& batch, Totals& totals) {
  const model::TrunkPass trunk = backbone_.read.forward_trunk(batch.model);
  const ValuePath::Pass pass = read_value_.forward(trunk, batch.model);
  add_numbers(pass.values_N(), batch, loss_of(pass.values_N(), batch), totals);
  const Tensor stats_DS = losses::sequence_stats(pass.values_N(), batch.docs);
  stats_.push_back(
      at::stack({stats_DS.select(1, kernels::kStatMean), roles(batch).to(at::kDouble)}, 1).cpu());
}

namespace {

// vbar and role of every sequence of this rank, as bytes for the others.
std::string as_bytes(const std::vector<Tensor>& parts) {
  std::string bytes;
  for (const Tensor& part : parts) {
    const Tensor flat = part.contiguous();
    bytes.append(reinterpret_cast<const char*>(flat.const_data_ptr<double>()), flat.nbytes());
  }
  return bytes;
}

std::optional<double> auc_of(const std::vector<std::string>& all) {
  std::vector<double> positive, negative;
  for (const std::string& bytes : all)
    for (std::size_t at = 0; at < bytes.size(); at += 2 * sizeof(double)) {
      double pair[2];
      std::memcpy(pair, bytes.data() + at, sizeof pair);
      if (std::isnan(pair[0])) continue;
      (static_cast<int>(pair[1]) == kPositive ? positive : negative).push_back(pair[0]);
    }
  return losses::auc(positive, negative);
}

}  // namespace

Numbers Critic::finish_evaluation(Totals& totals, comm::Communicator& group) {
  totals.reduce(group, "validation");
  const HostTotals host = totals.read();
  Numbers numbers;
  numbers.loss = options_.coef * host.value("value_loss");
  const losses::CriticMetrics found = losses::critic_metrics(host.values("critic"));
  if (options_.pairs && found.pairwise_accuracy)
    numbers.metrics.emplace_back("val/pairwise_accuracy", *found.pairwise_accuracy);
  if (const auto auc =
          auc_of(group.gather_bytes(as_bytes(stats_), comm::Communicator::kAllRanks, "auc")))
    numbers.metrics.emplace_back("val/auc", *auc);
  add_critic_metrics(found, "val", numbers.metrics);
  stats_.clear();
  return numbers;
}

TokenMarks Critic::view(const DeviceBatch& batch) {
  const model::TrunkPass trunk = backbone_.read.forward_trunk(batch.model);
  return {.weight_N = {},
          .value_N = read_value_.forward(trunk, batch.model).values_N(),
          .selected_by_head_N = {}};
}

}  // namespace wmtp::training
