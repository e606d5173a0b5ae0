// The learning rate of step s (from 0) is base * f(s). W warm-up steps, S steps in all, r the
// floor's ratio, q = (s - W) / (S - W):
//   s < W: (s + 1) / (W + 1).   s >= W: constant 1 | cosine r + (1-r)(1 + cos(pi q))/2 | linear 1 -
//   (1-r) q | exponential r^q | plateau 1, scaled by the caller's plateau factor.
#pragma once
#include <cstdint>
#include <optional>

namespace wmtp::optim {

enum class ScheduleType { constant, cosine, linear, exponential, plateau };

struct Schedule {
  ScheduleType type = ScheduleType::constant;
  std::int64_t total_steps = 1;   // S
  std::int64_t warmup_steps = 0;  // W, cut to S - 1
  double min_ratio = 0;           // r
  double plateau_factor = 1;      // current factor of `plateau`, never below r
};

// floor(S * ratio) unless a number of steps is given; at most S - 1.
std::int64_t warmup_steps(std::int64_t total_steps, double ratio,
                          std::optional<std::int64_t> steps);
double schedule_factor(const Schedule& schedule, std::int64_t step);
// base * factor, with the absolute floor `min_lr` (<= 0: none) after warm-up.
double learning_rate(const Schedule& schedule, std::int64_t step, double base, double min_lr = 0);

}  // namespace wmtp::optim
