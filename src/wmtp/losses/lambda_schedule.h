// lambda of the lambda-return at step s, f = clamp((s - warmup_steps) / decay_steps, 0, 1):
//   constant: value | linear: start + (end - start) f | cosine: end + (start-end)(1 + cos(pi f))/2
// decay_steps 0: end from s = warmup_steps on. Validation uses lambda = 1.
#pragma once
#include <cstdint>

namespace wmtp::losses {

enum class LambdaScheduleType { constant, linear, cosine };

struct LambdaSchedule {
  LambdaScheduleType type = LambdaScheduleType::linear;
  double value = 0.995, start = 1, end = 0.95;
  std::int64_t warmup_steps = 250, decay_steps = 500;
};

double lambda_at(const LambdaSchedule& schedule, std::int64_t step);

}  // namespace wmtp::losses
