#include "wmtp/optim/lr_schedule.h"

#include <gtest/gtest.h>

namespace wmtp::optim {
namespace {

std::vector<double> factors(ScheduleType type, std::int64_t total, std::int64_t warm, double r,
                            const std::vector<std::int64_t>& steps) {
  std::vector<double> out;
  for (std::int64_t step : steps) out.push_back(schedule_factor({type, total, warm, r, 1}, step));
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6) << i;
}

// Vector V45.
TEST(LrSchedule, WarmUpThenCosineLinearAndExponential) {
  const std::vector<std::int64_t> steps{0, 1, 2, 6, 9};
  expect_near(factors(ScheduleType::cosine, 10, 2, .1, steps), {.333333, .666667, 1, .55, .134254});
  expect_near(factors(ScheduleType::linear, 10, 2, .1, steps), {.333333, .666667, 1, .55, .2125});
  expect_near(factors(ScheduleType::exponential, 10, 2, .1, steps),
              {.333333, .666667, 1, .316228, .133352});
}

// Vector V46.
TEST(LrSchedule, CosineToZeroAndASingleStepWithoutWarmUp) {
  expect_near(factors(ScheduleType::cosine, 4, 0, 0, {0, 1, 2, 3}), {1, .853553, .5, .146447});
  EXPECT_EQ(warmup_steps(1, 0, 5), 0);
  expect_near(factors(ScheduleType::constant, 1, warmup_steps(1, 0, 5), 0, {0}), {1});
}

TEST(LrSchedule, FloorHoldsAfterWarmUpOnly) {
  const Schedule schedule{ScheduleType::cosine, 10, 2, 0, 1};
  EXPECT_NEAR(learning_rate(schedule, 0, 1e-3, 5e-4), 1e-3 / 3, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 9, 1e-3, 5e-4), 5e-4, 1e-12);
  EXPECT_EQ(warmup_steps(100, 0.03, std::nullopt), 3);
}

}  // namespace
}  // namespace wmtp::optim
