#include "wmtp/training/objective.h"

#include <algorithm>

namespace wmtp::training {

bool any_target(const StepFacts& facts) {
  return std::ranges::any_of(facts.head_targets, [](std::int64_t count) { return count > 0; });
}

std::vector<double> target_counts(const StepFacts& facts) {
  return {facts.head_targets.begin(), facts.head_targets.end()};
}

}  // namespace wmtp::training
