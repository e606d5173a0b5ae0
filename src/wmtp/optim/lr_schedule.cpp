#include "wmtp/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace wmtp::optim {

std::int64_t warmup_steps(std::int64_t total_steps, double ratio,
                          std::optional<std::int64_t> steps) {
  const auto wanted =
      steps ? *steps
            : static_cast<std::int64_t>(std::floor(static_cast<double>(total_steps) * ratio));
  return std::clamp<std::int64_t>(wanted, 0, std::max<std::int64_t>(0, total_steps - 1));
}

double schedule_factor(const Schedule& schedule, std::int64_t step) {
  const std::int64_t warm = std::min(schedule.warmup_steps, schedule.total_steps - 1);
  if (step < warm) return static_cast<double>(step + 1) / static_cast<double>(warm + 1);
  const double r = schedule.min_ratio;
  const double q = static_cast<double>(step - warm) /
                   static_cast<double>(std::max<std::int64_t>(1, schedule.total_steps - warm));
  switch (schedule.type) {
    case ScheduleType::constant:
      return 1;
    case ScheduleType::cosine:
      return r + (1 - r) * (1 + std::cos(std::numbers::pi * q)) / 2;
    case ScheduleType::linear:
      return 1 - (1 - r) * q;
    case ScheduleType::exponential:
      return std::pow(r, q);
    case ScheduleType::plateau:
      return std::max(r, schedule.plateau_factor);
  }
  return 1;
}

double learning_rate(const Schedule& schedule, std::int64_t step, double base, double min_lr) {
  const double rate = base * schedule_factor(schedule, step);
  const bool warming = step < std::min(schedule.warmup_steps, schedule.total_steps - 1);
  return warming ? rate : std::max(rate, min_lr);
}

}  // namespace wmtp::optim
