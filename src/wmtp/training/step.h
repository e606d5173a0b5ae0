// One optimizer step: all micro-batches of this rank, with every rank in step
// (docs/architecture.md, section 4). The host waits for nothing: loss, norm and the verdict "all
// finite" stay on the device until they are read, one step late.
#pragma once
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/model/transformer.h"
#include "wmtp/optim/adamw.h"
#include "wmtp/optim/loss_scale.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::training {

struct StepOptions {
  double max_grad_norm = 1.0;              // <= 0: no clipping
  optim::LossScale* loss_scale = nullptr;  // BORROWS; null: gradients are not scaled
};

struct StepInput {
  std::vector<model::Batch> micro_batches;  // of this rank; as many on every rank
  std::vector<std::int64_t> head_targets;   // N_k over all ranks and micro-batches
  double schedule_factor = 1, min_learning_rate = 0;
};

// The packed vector that is summed over ranks once a step, fp64, on the device.
struct StepTotals {
  explicit StepTotals(int num_heads, c10::Device device);
  Tensor loss_sum(int head) const {
    return packed.select(0, head);
  }  // sum of NLL over the head's targets
  Tensor squared_norm() const {
    return packed.select(0, num_heads);
  }  // of the gradient, loss scale included
  Tensor stop_votes() const {
    return packed.select(0, num_heads + 1);
  }  // ranks that were asked to stop
  int num_heads;
  Tensor packed;
};

struct StepResult {
  double loss = 0;        // mean over heads of their mean NLL
  double grad_norm = 0;   // before clipping
  bool applied = false;   // false: not finite, or no target in the whole step
  bool overflow = false;  // not finite by the loss scale alone, which was above 1: no bad step
  double loss_scale = 1;  // of this step
  bool stop = false;
  std::vector<double> head_losses;
};

// A step's numbers while they are still on the device.
struct PendingResult {
  StepTotals totals;
  Tensor apply;  // 0-d int32
  std::vector<std::int64_t> head_targets;
  Tensor loss_scale;        // 0-d fp64, this step's; undefined: 1
  StepResult read() const;  // BLOCKS until the step has run
};

class Step {
 public:
  // BORROWS all. `reduce` is the group of the packed sum.
  Step(parallel::Runtime& runtime, model::Transformer& model, optim::AdamW& optimizer,
       comm::Communicator& reduce, const StepOptions& options)
      : runtime_(runtime),
        model_(model),
        optimizer_(optimizer),
        reduce_(reduce),
        options_(options) {}

  // COLLECTIVE.
  PendingResult run(const StepInput& input, bool stop_requested = false);

 private:
  void run_micro_batch(const model::Batch& batch, const std::vector<double>& scales,
                       StepTotals& totals);
  void add_gradient_norm(StepTotals& totals);
  void update_loss_scale(const StepTotals& totals, const Tensor& apply);

  parallel::Runtime& runtime_;
  model::Transformer& model_;
  optim::AdamW& optimizer_;
  comm::Communicator& reduce_;
  StepOptions options_;
};

}  // namespace wmtp::training
