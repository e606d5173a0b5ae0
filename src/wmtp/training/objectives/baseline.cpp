#include "wmtp/training/objectives/baseline.h"

#include "wmtp/core/failpoint.h"

namespace wmtp::training {

Baseline::Baseline(PolicyViews policy, losses::Normalization normalization)
    : policy_(policy), heads_(policy.trained.config().n_future, normalization) {}

void Baseline::add_slots(TotalsLayout& layout) const {
  heads_.add_slots(layout);
}

bool Baseline::has_targets(const StepFacts& facts) const {
  return any_target(facts);
}

void Baseline::begin_step(const StepFacts& facts, std::span<const DeviceBatch>) {
  if (facts.numbers.defined())
    heads_.set_scales(facts.numbers, facts.loss_scale);
  else
    heads_.set_scales(target_counts(facts), facts.loss_scale);
}

void Baseline::run(std::size_t, const DeviceBatch& batch, Totals& totals) {
  model::TrunkPass trunk = policy_.trained.forward_trunk(batch.model);
  failpoint::pass("step.forward.mid");
  heads_.run(policy_.trained, trunk, batch.model, uniform_rows, heads_.num_heads(), totals);
  failpoint::pass("step.backward.mid");
  policy_.trained.backward_trunk(std::move(trunk), batch.model);
}

Numbers Baseline::read(const StepFacts&, const HostTotals& totals) const {
  Numbers numbers;
  if (const auto loss = heads_.read(totals)) {
    numbers.loss = loss->weighted;
    HeadLosses::add_head_metrics(*loss, "train", numbers.metrics);
  }
  return numbers;
}

void Baseline::evaluate(const DeviceBatch& batch, Totals& totals) {
  const model::TrunkPass trunk = policy_.read.forward_trunk(batch.model);
  heads_.evaluate(policy_.read, trunk, batch.model, uniform_rows, totals);
}

Numbers Baseline::finish_evaluation(Totals& totals, comm::Communicator& group) {
  totals.reduce(group, "validation");
  Numbers numbers;
  if (const auto loss = heads_.read(totals.read())) {
    numbers.loss = loss->unweighted;
    HeadLosses::add_head_metrics(*loss, "val", numbers.metrics);
  }
  return numbers;
}

TokenMarks Baseline::view(const DeviceBatch&) {
  return {};
}

std::unique_ptr<Objective> make_baseline(const ModelParts& parts) {
  return std::make_unique<Baseline>(parts.policy);
}

}  // namespace wmtp::training
