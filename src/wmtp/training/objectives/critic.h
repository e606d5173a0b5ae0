// Critic: the value of every prefix, learned from rewards or from pairs. The backbone is frozen
// (only the value head learns), adapted by LoRA, or trained whole.
#pragma once
#include "wmtp/losses/lambda_schedule.h"
#include "wmtp/losses/value_metrics.h"
#include "wmtp/training/objectives/baseline.h"
#include "wmtp/training/value_path.h"
#include "wmtp/training/value_terms.h"

namespace wmtp::training {

struct CriticOptions {
  losses::ValueLossOptions loss;
  losses::LambdaSchedule lambda_schedule;
  double coef = 1;
  bool pairs = false;  // samples are pairs
  bool backbone_learns = false;
};

// Adds the critic's numbers under `value` prefixes (`value/mean_pos`, or `val/mean_pos`).
void add_critic_metrics(const losses::CriticMetrics& found, std::string_view prefix,
                        Metrics& metrics);

class Critic : public Objective {
 public:
  // BORROWS. `value` leaves gradients, `read_value` only reads.
  Critic(PolicyViews backbone, ValuePath& value, ValuePath& read_value,
         const CriticOptions& options);

  void add_slots(TotalsLayout& layout) const override;
  bool has_targets(const StepFacts& facts) const override;
  std::vector<double> step_numbers(const StepFacts& facts) const override;
  void begin_step(const StepFacts& facts, std::span<const DeviceBatch> batches) override;
  void run(std::size_t index, const DeviceBatch& batch, Totals& totals) override;
  Numbers read(const StepFacts& facts, const HostTotals& totals) const override;
  void begin_evaluation(const StepFacts& facts) override;
  void evaluate(const DeviceBatch& batch, Totals& totals) override;
  Numbers finish_evaluation(Totals& totals, comm::Communicator& group) override;
  TokenMarks view(const DeviceBatch& batch) override;

 private:
  losses::ValueLoss loss_of(const Tensor& values_N, const DeviceBatch& batch) const;
  Tensor roles(const DeviceBatch& batch) const;
  void add_numbers(const Tensor& values_N, const DeviceBatch& batch, const losses::ValueLoss& loss,
                   Totals& totals);

  PolicyViews backbone_;
  ValuePath &value_, &read_value_;
  CriticOptions options_;
  ValueTerms terms_;
  Tensor loss_scale_;
  std::vector<Tensor> stats_;  // of the validation so far, with roles: [D, 2] vbar and role
};

}  // namespace wmtp::training
