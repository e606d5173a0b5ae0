// What a stage does with a micro-batch: signals, weights, losses and gradients. A closed set, one
// file each in objectives/; everything around it (accumulation, reduction, clipping, update,
// report) is the one loop of step.h and trainer.h.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/model/transformer.h"
#include "wmtp/parallel/runtime.h"
#include "wmtp/training/device_batch.h"
#include "wmtp/training/totals.h"

namespace wmtp::training {

class ValuePath;

using Metrics = std::vector<std::pair<std::string, double>>;

// What is known of a whole step (or validation set), over all ranks and micro-batches, before it
// runs.
struct StepFacts {
  std::int64_t step = 0;                   // s, from 0
  std::vector<std::int64_t> head_targets;  // n_k
  // Objective::step_numbers() as fp64 on the device, for steps that are recorded: a number of the
  // host would stay what it was then. Undefined: the host's are read.
  Tensor numbers = {};
  std::int64_t num_sequences = 0, num_pairs = 0, num_response_tokens = 0;
  // n_k of each micro-batch of each rank: [(micro-batch * world + rank) * H + k]; empty where no
  // stage asks.
  std::vector<std::int64_t> scope_targets;
  Tensor loss_scale;  // 0-d fp64: gradients carry it until the update (fp16); undefined: 1
};

// The loss that is differentiated (in validation: the stage's `val/loss`), and all else worth a
// report, under the names of docs/stages.md.
struct Numbers {
  double loss = 0;
  Metrics metrics;
};

// What a stage makes of the tokens of one batch, for people. [N]; undefined where it has none.
struct TokenMarks {
  Tensor weight_N, value_N;
  std::vector<Tensor> selected_by_head_N;  // 0 or 1, at the predicted token
};

// Whether any head has a target; n_k as doubles.
bool any_target(const StepFacts& facts);
std::vector<double> target_counts(const StepFacts& facts);

class Objective {
 public:
  virtual ~Objective() = default;

  virtual void add_slots(TotalsLayout& layout) const = 0;
  // Whether the step has anything to learn from; false leaves parameters and optimizer alone.
  virtual bool has_targets(const StepFacts& facts) const = 0;
  // All numbers of the host that differ from step to step and that begin_step() and run() compute
  // with: they read them of StepFacts::numbers where that is defined.
  virtual std::vector<double> step_numbers(const StepFacts& facts) const {
    return target_counts(facts);
  }
  // COLLECTIVE. Before steps that are recorded: gives the batches what no recording can hold, so
  // that run() finds it there. Signals of a frozen model, which may be kept and which the host may
  // convert weights for; what is drawn on the host.
  virtual void prepare(std::span<DeviceBatch> /*batches*/) {}
  // COLLECTIVE. Before the first micro-batch: signals and sums that the gradients' scales need.
  virtual void begin_step(const StepFacts& facts, std::span<const DeviceBatch> batches) = 0;
  // COLLECTIVE. Forward and backward of micro-batch `index`; adds to the totals. A nonzero slot
  // "bad" makes the step a bad one on all ranks.
  virtual void run(std::size_t index, const DeviceBatch& batch, Totals& totals) = 0;
  // After the last micro-batch, where recorded within the recording: numbers that are no sums.
  virtual void close_totals(Totals&) {}
  // After the totals were summed over ranks, never recorded: the only feedback edge. `apply` 0-d
  // int32.
  virtual void end_step(Totals&, const Tensor& /*apply*/) {}
  // REQUIRES the facts of that step. BLOCKS for nothing that is not in the totals.
  virtual Numbers read(const StepFacts& facts, const HostTotals& totals) const = 0;

  // Validation: all batches of this rank, then the numbers of the whole set, the same on all ranks.
  virtual void begin_evaluation(const StepFacts& facts) = 0;
  virtual void evaluate(const DeviceBatch& batch, Totals& totals) = 0;               // COLLECTIVE
  virtual Numbers finish_evaluation(Totals& totals, comm::Communicator& group) = 0;  // COLLECTIVE

  virtual TokenMarks view(const DeviceBatch& batch) = 0;  // COLLECTIVE
};

// The two views of the policy: one that leaves gradients, one that only reads.
struct PolicyViews {
  model::Transformer& trained;
  model::Transformer& read;
};

// What an objective is made of. BORROWS, for the life of the TrainableModel.
struct ModelParts {
  PolicyViews policy;
  ValuePath* value = nullptr;       // null: the model has no value head
  ValuePath* read_value = nullptr;  // the same weights, without gradients
  parallel::Groups groups;
};
using MakeObjective = std::function<std::unique_ptr<Objective>(const ModelParts&)>;

}  // namespace wmtp::training
