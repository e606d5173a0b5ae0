// Rho-1: of each head's targets only those learn whose loss exceeds the reference model's most
// (stages.md, section 5). The policy runs once: head by head forward, NLL of all targets,
// selection, backward of the selected rows.
#pragma once
#include "wmtp/training/frozen_model.h"
#include "wmtp/training/objectives/baseline.h"
#include "wmtp/training/objectives/weight_report.h"
#include "wmtp/weighting/rho1.h"

namespace wmtp::training {

struct Rho1Options {
  losses::Normalization normalization = losses::Normalization::weights;
  weighting::Rho1Mode mode = weighting::Rho1Mode::signed_excess;
  double k_percent = 0.6;
  bool scope_ranks = false;
  bool first_head_always = true;
};

class Rho1 : public Objective {
 public:
  // BORROWS. `reference` may be null where every batch brings its reference NLL.
  Rho1(PolicyViews policy, FrozenModel* reference, const Rho1Options& options,
       comm::Communicator& group);

  void add_slots(TotalsLayout& layout) const override;
  bool has_targets(const StepFacts& facts) const override;
  std::vector<double> step_numbers(const StepFacts& facts) const override;
  void prepare(std::span<DeviceBatch> batches) override;
  void begin_step(const StepFacts& facts, std::span<const DeviceBatch> batches) override;
  void run(std::size_t index, const DeviceBatch& batch, Totals& totals) override;
  void close_totals(Totals& totals) override { report_.close(totals); }
  Numbers read(const StepFacts& facts, const HostTotals& totals) const override;
  void begin_evaluation(const StepFacts& facts) override;
  void evaluate(const DeviceBatch& batch, Totals& totals) override;
  Numbers finish_evaluation(Totals& totals, comm::Communicator& group) override;
  TokenMarks view(const DeviceBatch& batch) override;

 private:
  int first_selected() const { return options_.first_head_always ? 1 : 0; }
  Tensor reference_nll(const DeviceBatch& batch);
  // Within the scope; `counts_R`: how many scores each rank has of it (scope ranks alone).
  // COLLECTIVE there.
  weighting::Selection select(const Tensor& scores_M, std::span<const std::int32_t> counts_R);
  // Of a micro-batch of the current step, which every rank knows; of any batch, by asking: both
  // empty unless the scope is all ranks.
  std::vector<std::int32_t> planned_counts(std::size_t index, int head) const;
  std::vector<std::int32_t> gathered_counts(std::int64_t mine);  // COLLECTIVE
  std::int64_t targets_of(const std::vector<std::int64_t>& scope_targets, std::size_t index,
                          int rank, int head) const;
  // A head's rows as both models judge them; rows without a target only fill up.
  struct Compared {
    int head = 0;
    Tensor nll_M, q_M, present_M;
  };
  RowWeights weigh(std::size_t index, const Compared& rows, const Totals& totals);
  void add_sums(const Compared& rows, const Tensor& weight_M, Totals& totals);

  PolicyViews policy_;
  FrozenModel* reference_;
  Rho1Options options_;
  std::int64_t share_;
  comm::Communicator& group_;
  HeadLosses heads_;
  WeightReport report_;
  std::vector<std::int64_t> scope_targets_;  // of the current step
  // Validation: p and q of every head over the whole set, selected at its end.
  std::vector<std::vector<Tensor>> policy_losses_, reference_losses_;
};

}  // namespace wmtp::training
