#include "wmtp/run/report/epoch_sums.h"

#include <string_view>

namespace wmtp::run {
namespace {

struct Renamed {
  config::Stage stage;
  std::string_view of_step, of_epoch;
};
using config::Stage;
constexpr Renamed kNames[] = {
    {Stage::critic, "train/pairwise_accuracy", "train/epoch_pairwise_accuracy"},
    {Stage::critic, "value/margin", "train/epoch_margin"},
    {Stage::verifiable, "train/weighted_ce_loss", "train/epoch_weighted_ce"},
    {Stage::verifiable, "train/unweighted_ce_loss", "train/epoch_unweighted_ce"},
    {Stage::rho1, "train/weighted_ce_loss", "train/epoch_weighted_ce_loss"},
    {Stage::rho1, "train/unweighted_ce_loss", "train/epoch_unweighted_ce_loss"},
};

// The head that speaks for the excess: the first that is selected by default.
std::string_view excess_name(const training::StepFacts& facts) {
  return facts.head_targets.size() > 1 ? "rho1/head1_excess" : "rho1/head0_excess";
}

void add_facts(const training::StepFacts& step, training::StepFacts& sum) {
  sum.step = step.step;
  sum.head_targets.resize(step.head_targets.size());
  for (std::size_t k = 0; k < step.head_targets.size(); ++k)
    sum.head_targets[k] += step.head_targets[k];
  sum.num_sequences += step.num_sequences;
  sum.num_pairs += step.num_pairs;
  sum.num_response_tokens += step.num_response_tokens;
}

}  // namespace

// What a step's value loss was divided by.
double EpochSums::value_count(const training::StepFacts& facts) const {
  const config::ValueLoss& loss = config_.training.value_loss;
  if (loss.type == config::ValueLossType::pairwise_ranking)
    return static_cast<double>(facts.num_pairs);
  return static_cast<double>(loss.reduction == config::ValueReduction::token
                                 ? facts.num_response_tokens
                                 : facts.num_sequences);
}

void EpochSums::add(const training::StepResult& step) {
  if (!step.applied || !step.totals) return;
  training::HostTotals totals = *step.totals;
  if (totals.has("value_loss")) totals.scale("value_loss", value_count(step.facts));
  if (totals_)
    totals_->add(totals);
  else
    totals_ = std::move(totals);
  add_facts(step.facts, facts_);
}

training::Metrics EpochSums::take() {
  if (!totals_) return {};
  training::HostTotals totals = *std::exchange(totals_, std::nullopt);
  const training::StepFacts facts = std::exchange(facts_, {});
  const double count = value_count(facts);
  if (totals.has("value_loss") && count > 0) totals.scale("value_loss", 1 / count);
  const training::Numbers numbers = objective_.read(facts, totals);
  training::Metrics found{{"train/epoch_loss", numbers.loss}};
  for (const auto& [name, value] : numbers.metrics) {
    for (const Renamed& renamed : kNames)
      if (renamed.stage == config_.experiment.stage && renamed.of_step == name)
        found.emplace_back(renamed.of_epoch, value);
    if (name == excess_name(facts)) found.emplace_back("train/epoch_excess_loss", value);
  }
  return found;
}

}  // namespace wmtp::run
