// One optimizer step: all micro-batches of this rank, with every rank in step
// (docs/architecture.md, section 4). The host waits for nothing: loss, norm and the verdict "all
// finite" stay on the device until they are read, one step late.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/optim/adamw.h"
#include "wmtp/optim/loss_scale.h"
#include "wmtp/parallel/runtime.h"
#include "wmtp/training/grad_norms.h"
#include "wmtp/training/objective.h"
#include "wmtp/training/step_graphs.h"

namespace wmtp::training {

struct StepOptions {
  double max_grad_norm = 1.0;              // <= 0: no clipping
  optim::LossScale* loss_scale = nullptr;  // BORROWS; null: gradients are not scaled
  bool cuda_graphs = false;                // see step_graphs.h, whose demands are the caller's

  int num_graphs() const { return cuda_graphs ? static_cast<int>(StepGraphs::kMostGraphs) : 0; }
  // How the batches of its steps are to be uploaded.
  models::BatchShape batch_shape() const {
    return cuda_graphs ? models::BatchShape::rounded : models::BatchShape::exact;
  }
};

struct StepInput {
  std::vector<DeviceBatch> micro_batches;  // of this rank; as many on every rank
  StepFacts facts;
  double schedule_factor = 1, min_learning_rate = 0;
  double num_tokens = 0, squared_lengths = 0;  // of this rank: attended tokens, sum of length^2
};

// What this rank was asked for; one rank's wish is everybody's, told by the result.
struct StopSaveFlags {
  bool stop = false, save = false;
};

struct StepResult {
  double loss = 0;        // the one that is differentiated
  double grad_norm = 0;   // before clipping
  double clip_ratio = 1;  // norm after clipping over the norm before
  bool applied = false;   // false: not finite, or nothing to learn from in the whole step
  bool overflow = false;  // not finite by the loss scale alone, which was above 1: no bad step
  bool bad = false;       // a loss, gradient or signal that is not finite
  bool stop = false;      // a rank was asked to stop
  bool save = false;      // a rank was asked to save
  double loss_scale = 1;  // of this step
  double num_tokens = 0, squared_lengths = 0;  // over all ranks
  Metrics metrics;                             // the stage's own
  StepFacts facts;
  std::optional<HostTotals> totals;  // what the metrics were made of
};

// A step's numbers on their way from the device. BORROWS the step and its objective.
class PendingResult {
 public:
  // BLOCKS until the device has come to the step's verdict: its updates may still run, and so may
  // the steps that were enqueued since.
  StepResult read() const;

 private:
  friend class Step;
  PendingResult(const Totals& totals, const Tensor& apply, const StepFacts& facts,
                const Objective* objective, double max_grad_norm)
      : layout_(&totals.layout()),
        totals_(totals.copy_to_host()),
        apply_(apply),
        loss_scale_(facts.loss_scale),
        facts_(facts),
        objective_(objective),
        max_grad_norm_(max_grad_norm) {}
  const TotalsLayout* layout_;
  HostCopy totals_, apply_, loss_scale_;
  StepFacts facts_;
  const Objective* objective_;
  double max_grad_norm_;
};

class Step {
 public:
  // BORROWS all. `reduce` is the group of the packed sum.
  Step(parallel::Runtime& runtime, Objective& objective, optim::AdamW& optimizer,
       comm::Communicator& reduce, const StepOptions& options);

  PendingResult run(const StepInput& input, const StopSaveFlags& asked = {});  // COLLECTIVE
  Totals make_totals() const;                                 // zeros, for a validation
  const StepGraphs* graphs() const { return graphs_.get(); }  // null: steps run plainly

 private:
  // What a graph holds: all micro-batches, and their gradients home.
  void compute(const StepFacts& facts, std::span<const DeviceBatch> batches, Totals& totals);
  Totals make_gradients(StepFacts& facts, std::span<const DeviceBatch> batches);
  void finish_gradients(Totals& totals);  // brings all home and adds their norm
  Tensor may_apply(const Totals& totals, const StepFacts& facts) const;
  void update(const StepInput& input, const StepFacts& facts, const Totals& totals,
              const Tensor& apply);

  parallel::Runtime& runtime_;
  Objective& objective_;
  optim::AdamW& optimizer_;
  comm::Communicator& reduce_;
  StepOptions options_;
  GradNorms norms_;
  TotalsLayout layout_;
  std::unique_ptr<StepGraphs> graphs_;
};

}  // namespace wmtp::training
