// The rows of a run's training set in the order of their files, each once: what `score` takes
// without a step.
#pragma once
#include <memory>
#include <vector>

#include "wmtp/data/plan/dataset.h"
#include "wmtp/data/plan/step_planner.h"

namespace wmtp::run {

// Every list that a run of that many epochs draws; most sets have one.
std::vector<std::shared_ptr<const data::EpochView>> lists_of(const data::Dataset& set,
                                                             std::uint64_t num_epochs);

// batch_size samples at a time, one micro-batch a rank in turn; ranks without samples in the last
// round get an empty one. Pairs count as their rows.
class FileOrder : public data::BatchPlanner {
 public:
  FileOrder(const data::Dataset& set, std::uint64_t num_epochs, const data::StepShape& shape,
            int num_heads);
  bool next(data::MicroBatchPlan& plan) override;

 private:
  std::size_t begin_of(std::uint64_t sample) const;  // in sequences_

  data::StepShape shape_;
  int num_heads_;
  std::shared_ptr<const data::EpochView> view_;
  std::vector<data::Sequence> sequences_;  // by sample and part
  std::vector<std::size_t> samples_;       // where each begins
  std::uint64_t at_ = 0;                   // first sample of the next round
};

}  // namespace wmtp::run
