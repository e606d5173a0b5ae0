// Which sequences each micro-batch of each step gets. Pure arithmetic over lengths, so every rank
// knows the whole step, its target counts included, without communication.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "wmtp/data/options.h"
#include "wmtp/data/plan/dataset.h"

namespace wmtp::data {

struct MicroBatchPlan {
  std::shared_ptr<const EpochView> view;
  std::vector<Sequence> sequences;  // this rank's
  std::vector<std::int64_t> step_head_targets;
  std::int64_t step_sequences = 0, step_pairs = 0, step_response_tokens = 0;
  // Targets of every micro-batch of every rank: [(micro-batch * world + rank) * H + head]. None of
  // validation, nor with max_tokens_per_batch.
  std::shared_ptr<const std::vector<std::int64_t>> scope_targets;
  std::uint64_t step = 0, epoch = 0;
  std::uint32_t micro_batch = 0, num_micro_batches = 1;
  Cursor cursor_after;
};

// A source of micro-batches, in order. next() returns false at the end.
class BatchPlanner {
 public:
  virtual ~BatchPlanner() = default;
  virtual bool next(MicroBatchPlan& plan) = 0;
};

// Integers, so that 1.2 epochs of 10 samples leave 2 in the last: floor(n_epochs * 1e6 + 1/2).
std::uint64_t epochs_in_millionths(double num_epochs);
// Samples of epoch `epoch` that a run of that length takes: N, or floor(fraction * N) in the last.
std::uint64_t samples_in_epoch(std::uint64_t num_epochs_millionths, std::uint64_t epoch,
                               std::uint64_t n);
// Optimizer steps from `cursor` (epoch, samples taken) to the end.
std::uint64_t steps_left(std::uint64_t num_epochs_millionths, std::uint64_t n,
                         std::uint64_t samples_per_step, std::uint64_t epoch = 0,
                         std::uint64_t samples_taken = 0);

// Training: a step takes the next G places, the last of an epoch what is left; micro-batch j of
// rank r is group j*W + r of `batch_size` consecutive places.
class TrainPlanner : public BatchPlanner {
 public:
  struct Run {
    StepShape shape;
    CollateOptions collate;
    std::uint64_t num_epochs_millionths = 1'000'000;
    std::uint64_t epoch = 0, samples_taken = 0;  // where to begin
  };
  TrainPlanner(std::shared_ptr<const Dataset> dataset, const Run& run);
  bool next(MicroBatchPlan& plan) override;

 private:
  bool plan_step();
  // Micro-batch j of rank r is group j*W + r of `batch_size` places; returns every group's targets.
  std::shared_ptr<const std::vector<std::int64_t>> group_by_place(
      const std::vector<Sequence>& all, const std::vector<std::size_t>& first_of_place);
  void group_by_tokens(const std::vector<Sequence>& all,
                       const std::vector<std::size_t>& first_of_place);

  std::shared_ptr<const Dataset> dataset_;
  Run run_;
  std::uint64_t step_ = 0;
  std::shared_ptr<const EpochView> view_;
  std::uint64_t view_epoch_ = ~std::uint64_t{0};
  std::vector<MicroBatchPlan> ready_;
  std::size_t next_ready_ = 0;
  std::vector<Sequence> all_;
};

// Validation: the set in file order, each sample once, contiguous blocks over ranks (sizes differ
// by at most 1); ranks with fewer batches get empty ones. Counts are those of the whole set.
class ValidationPlanner : public BatchPlanner {
 public:
  ValidationPlanner(std::shared_ptr<const Dataset> dataset, const StepShape& shape, int num_heads);
  bool next(MicroBatchPlan& plan) override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  StepShape shape_;
  std::shared_ptr<const EpochView> view_;
  MicroBatchPlan whole_;  // the counts of the set
  std::uint64_t begin_ = 0, end_ = 0;
  std::uint32_t num_batches_ = 0, at_ = 0;
};

}  // namespace wmtp::data
