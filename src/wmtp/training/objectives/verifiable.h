// Verifiable: each target counts as much as its token raised the value (stages.md, section 4). The
// values come from the policy's own value head, trained along (joint), or from a frozen value
// model; controls put random or shuffled weights in their place.
#pragma once
#include <optional>

#include "wmtp/losses/lambda_schedule.h"
#include "wmtp/losses/value_loss.h"
#include "wmtp/training/frozen_model.h"
#include "wmtp/training/objectives/baseline.h"
#include "wmtp/training/objectives/weight_report.h"
#include "wmtp/training/value_path.h"
#include "wmtp/training/value_terms.h"
#include "wmtp/weighting/controls.h"
#include "wmtp/weighting/ema.h"
#include "wmtp/weighting/td.h"
#include "wmtp/weighting/weights.h"

namespace wmtp::training {

enum class Whiten { none, batch, ema };
enum class WeightControl { none, random, shuffled };

struct VerifiableOptions {
  losses::Normalization normalization = losses::Normalization::tokens;
  weighting::TdOptions td;
  weighting::WeightOptions weights;
  Whiten whiten = Whiten::none;
  bool scope_ranks = false;  // whiten batch over all ranks' micro-batches of one index
  WeightControl control = WeightControl::none;
  weighting::LogNormal random_law;  // of control random
  std::uint64_t seed = 0;           // of the controls
  // joint
  double value_coef = 0.5;
  bool stop_gradient = false;
  losses::ValueLossOptions value_loss;
  losses::LambdaSchedule lambda_schedule;
};

// Where values come from: exactly one, or none with control random. BORROWS.
struct ValueSources {
  ValuePath* joint = nullptr;
  ValuePath* joint_read = nullptr;  // the same head without gradients
  FrozenModel* model = nullptr;     // null with every value cached
};

class Verifiable : public Objective {
 public:
  // BORROWS. `group`: of the scopes that span ranks.
  Verifiable(PolicyViews policy, const ValueSources& values, const VerifiableOptions& options,
             weighting::EmaTracker& ema, comm::Communicator& group);

  void add_slots(TotalsLayout& layout) const override;
  bool has_targets(const StepFacts& facts) const override;
  std::vector<double> step_numbers(const StepFacts& facts) const override;
  void prepare(std::span<DeviceBatch> batches) override;
  void begin_step(const StepFacts& facts, std::span<const DeviceBatch> batches) override;
  void run(std::size_t index, const DeviceBatch& batch, Totals& totals) override;
  void close_totals(Totals& totals) override { report_.close(totals); }
  void end_step(Totals& totals, const Tensor& apply) override;
  Numbers read(const StepFacts& facts, const HostTotals& totals) const override;
  void begin_evaluation(const StepFacts& facts) override;
  void evaluate(const DeviceBatch& batch, Totals& totals) override;
  Numbers finish_evaluation(Totals& totals, comm::Communicator& group) override;
  TokenMarks view(const DeviceBatch& batch) override;

 private:
  // Signals of one micro-batch and what they weigh. x and values undefined with control random.
  struct Weighed {
    Tensor values_N, x_N, weights_N, num_clipped;
  };
  bool joint() const { return sources_.joint != nullptr; }
  bool weighs_ahead() const { return options_.normalization != losses::Normalization::tokens; }
  Tensor frozen_values(const DeviceBatch& batch);
  Weighed weigh(const Tensor& values_N, const DeviceBatch& batch,
                const weighting::Whitening* fixed);
  weighting::Whitening whitening(const Tensor& x_N, const DeviceBatch& batch);
  Tensor drawn(const DeviceBatch& batch) const;
  Tensor shuffled(const Tensor& weights_N, const DeviceBatch& batch) const;
  void add_signal_sums(const Weighed& weighed, const DeviceBatch& batch, Totals& totals);
  Tensor weight_totals(std::span<const DeviceBatch> batches);
  static WeighRows by_target(const Tensor& weights_N, const model::Batch& batch);
  void add_loss_metrics(const losses::MtpLoss& loss, std::string_view prefix,
                        Metrics& metrics) const;

  PolicyViews policy_;
  ValueSources sources_;
  VerifiableOptions options_;
  weighting::EmaTracker& ema_;
  comm::Communicator& group_;
  HeadLosses heads_;
  WeightReport report_;
  ValueTerms terms_;
  Tensor loss_scale_;
  bool in_validation_ = false;
  std::vector<Weighed> ahead_;  // of all micro-batches, where the normaliser needs them first
  // Validation with whiten batch: everything is weighed once the whole set is known.
  struct Held {
    DeviceBatch batch;
    Tensor x_N;
    std::vector<Tensor> nll_by_head;
  };
  std::vector<Held> held_;
};

}  // namespace wmtp::training
