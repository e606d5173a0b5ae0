// Numbers over all steps since the last validation, by the formulas of one step on the sums of all
// of them: `train/epoch_*`.
#pragma once
#include <optional>

#include "wmtp/config/config.h"
#include "wmtp/training/step.h"

namespace wmtp::run {

class EpochSums {
 public:
  // BORROWS both.
  EpochSums(const config::Config& config, const training::Objective& objective)
      : config_(config), objective_(objective) {}

  void add(const training::StepResult& step);  // a step that was not applied is left out
  training::Metrics take();                    // and resets; nothing if there was no step

 private:
  double value_count(const training::StepFacts& facts) const;

  const config::Config& config_;
  const training::Objective& objective_;
  training::StepFacts facts_;
  std::optional<training::HostTotals> totals_;
};

}  // namespace wmtp::run
