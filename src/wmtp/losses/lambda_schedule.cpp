#include "wmtp/losses/lambda_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "wmtp/core/error.h"

namespace wmtp::losses {

double lambda_at(const LambdaSchedule& schedule, std::int64_t step) {
  if (schedule.type == LambdaScheduleType::constant) return schedule.value;
  const double past = static_cast<double>(step - schedule.warmup_steps);
  const double decay = static_cast<double>(schedule.decay_steps);
  const double f = decay > 0 ? std::clamp(past / decay, 0.0, 1.0) : (past >= 0 ? 1.0 : 0.0);
  if (schedule.type == LambdaScheduleType::linear)
    return schedule.start + (schedule.end - schedule.start) * f;
  WMTP_CHECK(schedule.type == LambdaScheduleType::cosine, "an unknown lambda schedule");
  return schedule.end + (schedule.start - schedule.end) * (1 + std::cos(std::numbers::pi * f)) / 2;
}

}  // namespace wmtp::losses
