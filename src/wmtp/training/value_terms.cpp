#include "wmtp/training/value_terms.h"

namespace wmtp::training {

std::vector<double> value_numbers(const StepFacts& facts, const losses::LambdaSchedule& schedule) {
  return {static_cast<double>(facts.num_sequences), static_cast<double>(facts.num_response_tokens),
          static_cast<double>(facts.num_pairs), losses::lambda_at(schedule, facts.step)};
}

ValueTerms value_terms(const losses::ValueLossOptions& loss, const losses::LambdaSchedule& schedule,
                       const StepFacts& facts) {
  const std::vector<double> numbers = value_numbers(facts, schedule);
  ValueTerms terms{loss, {.sequences = numbers[0], .tokens = numbers[1], .pairs = numbers[2]}};
  terms.loss.lambda = numbers[3];
  if (!facts.numbers.defined()) return terms;
  terms.counts.counts_3 = facts.numbers.narrow(0, 0, 3);
  terms.loss.lambda_1 = facts.numbers.narrow(0, 3, 1);
  return terms;
}

ValueTerms validation_terms(const losses::ValueLossOptions& loss, const StepFacts& facts) {
  constexpr losses::LambdaSchedule kWhole{.type = losses::LambdaScheduleType::constant, .value = 1};
  return value_terms(loss, kWhole, facts);
}

}  // namespace wmtp::training
