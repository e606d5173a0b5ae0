// What the value losses of a step are made with: the options, the counts of the whole step and the
// lambda of its time. Numbers of the host or, where a step is recorded, of the device.
#pragma once
#include <cstdint>
#include <vector>

#include "wmtp/losses/lambda_schedule.h"
#include "wmtp/losses/value_loss.h"
#include "wmtp/training/objective.h"

namespace wmtp::training {

struct ValueTerms {
  losses::ValueLossOptions loss;
  losses::ValueCounts counts;
};

// Sequences, response tokens, pairs, lambda: what an objective's step_numbers() begin with where it
// reads value_terms().
inline constexpr std::int64_t kNumValueNumbers = 4;
std::vector<double> value_numbers(const StepFacts& facts, const losses::LambdaSchedule& schedule);

ValueTerms value_terms(const losses::ValueLossOptions& loss, const losses::LambdaSchedule& schedule,
                       const StepFacts& facts);
// Of a validation: lambda is 1.
ValueTerms validation_terms(const losses::ValueLossOptions& loss, const StepFacts& facts);

}  // namespace wmtp::training
