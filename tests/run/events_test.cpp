// Counts of what lies before a run against a run that is played step by step.
#include "wmtp/run/plan/events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "wmtp/run/plan/remaining.h"

namespace wmtp::run {
namespace {

struct Played {
  std::vector<std::int64_t> due;       // steps, from 1
  std::vector<std::uint64_t> samples;  // after each step; of the run's beginning first
};

Played play(const EventClock& clock, const StepGrid& grid, std::int64_t num_steps) {
  Played run;
  std::uint64_t samples = 0;
  run.samples.push_back(0);
  for (std::int64_t step = 1; step <= num_steps; ++step) {
    const std::uint64_t left = grid.samples_per_epoch - samples % grid.samples_per_epoch;
    const std::uint64_t after = samples + std::min(grid.samples_per_step, left);
    if (clock.due(step, samples, after)) run.due.push_back(step);
    samples = after;
    run.samples.push_back(samples);
  }
  return run;
}

class Events : public ::testing::TestWithParam<std::tuple<EventInterval, StepGrid>> {};

TEST_P(Events, NextStepAndCountAreThoseOfARunThatIsPlayed) {
  const auto& [interval, grid] = GetParam();
  const EventClock clock(interval, grid.samples_per_epoch);
  constexpr std::int64_t kSteps = 60;
  const Played run = play(clock, grid, kSteps);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const EventClock::Place now{step, run.samples[static_cast<std::size_t>(step)]};
    EXPECT_EQ(grid.step_of(now.samples), static_cast<std::uint64_t>(step));
    EXPECT_EQ(grid.samples_after(static_cast<std::uint64_t>(step)), now.samples);
    const auto next = std::upper_bound(run.due.begin(), run.due.end(), step);
    const auto found = clock.next_step(now, grid);
    if (next != run.due.end()) {
      ASSERT_TRUE(found);
      EXPECT_EQ(*found, *next) << "after step " << step;
    }
    EXPECT_EQ(interval.never(), !found);
    const std::int64_t count = clock.count(now, {kSteps, run.samples.back()});
    const bool may_coincide = interval.steps && interval.epochs;
    EXPECT_TRUE(may_coincide ? count >= run.due.end() - next : count == run.due.end() - next)
        << "after step " << step << ": " << count;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Intervals, Events,
    ::testing::Combine(::testing::Values(EventInterval{{}, 7}, EventInterval{1.0, {}},
                                         EventInterval{0.5, {}}, EventInterval{1.7, {}},
                                         EventInterval{1.0, 4}, EventInterval{}),
                       ::testing::Values(StepGrid{24, 4}, StepGrid{25, 4}, StepGrid{97, 16})));

TEST(RemainingEvents, CountTheLastValidationAndTheSaveOfTheEnd) {
  config::Config config;
  config.training.eval_every_steps = 10;
  config.checkpoint.save_checkpoint_every.reset();
  config.checkpoint.save_every_steps = 15;
  config.checkpoint.save_final = true;
  const RemainingEvents remaining(config, {1000, 10}, /*validates=*/true);
  const tracking::RemainingWork all = remaining.after({0, 0}, 40);
  EXPECT_EQ(all.num_steps, 40);
  EXPECT_EQ(all.num_validations, 4);  // 10, 20, 30 and the end, which is due as well
  EXPECT_EQ(all.num_saves, 3);        // 15, 30 and the end
  EXPECT_EQ(remaining.next_save({0, 0}, 40), 15);
  EXPECT_EQ(remaining.next_save({30, 300}, 40), 40);
  EXPECT_EQ(remaining.next_save({40, 400}, 40), std::nullopt);
  const RemainingEvents without(config, {1000, 10}, /*validates=*/false);
  EXPECT_EQ(without.after({0, 0}, 40).num_validations, 0);
}

}  // namespace
}  // namespace wmtp::run
