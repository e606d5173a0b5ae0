// Baseline: every target counts alike. Also plain next-token training, with one head.
#pragma once
#include "wmtp/training/head_losses.h"

namespace wmtp::training {

class Baseline : public Objective {
 public:
  // BORROWS. With equal weights `weights` is `tokens`; `weights_joint` divides by the targets of
  // all heads together.
  explicit Baseline(PolicyViews policy,
                    losses::Normalization normalization = losses::Normalization::tokens);

  void add_slots(TotalsLayout& layout) const override;
  bool has_targets(const StepFacts& facts) const override;
  void begin_step(const StepFacts& facts, std::span<const DeviceBatch> batches) override;
  void run(std::size_t index, const DeviceBatch& batch, Totals& totals) override;
  Numbers read(const StepFacts& facts, const HostTotals& totals) const override;
  void begin_evaluation(const StepFacts&) override {}
  void evaluate(const DeviceBatch& batch, Totals& totals) override;
  Numbers finish_evaluation(Totals& totals, comm::Communicator& group) override;
  TokenMarks view(const DeviceBatch& batch) override;

 private:
  PolicyViews policy_;
  HeadLosses heads_;
};

// For AssembleOptions::objective.
std::unique_ptr<Objective> make_baseline(const ModelParts& parts);

}  // namespace wmtp::training
