// Numbers over all steps since the last validation, by the formulas of one step on the sums of all
// of them: `train/epoch_*`.
#pragma once
#include <optional>

#include "wmtp/config/config.h"
#include "wmtp/training/step.h"

namespace wmtp::training {

class EpochSums {
 public:
  // BORROWS both.
  EpochSums(const config::Config& config, const Objective& objective)
      : config_(config), objective_(objective) {}

  void add(const StepResult& step);  // a step that was not applied is left out
  Metrics take();                    // begins anew; nothing if there was no step

 private:
  double value_count(const StepFacts& facts) const;

  const config::Config& config_;
  const Objective& objective_;
  StepFacts facts_;
  std::optional<HostTotals> totals_;
};

}  // namespace wmtp::training
