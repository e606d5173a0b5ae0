// Which losses are spikes.
#include "wmtp/run/report/loss_watch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"

namespace wmtp::test {
namespace {

using run::FoundSpike;
using run::LossHistory;

constexpr config::LossSpike kDefaults{};

run::StepRecord step_of(std::int64_t step, double loss, bool applied = true) {
  run::StepRecord record;
  record.step = step;
  record.result.loss = loss;
  record.result.applied = applied;
  return record;
}

// The steps, from 1, at which a spike is told.
template <class LossAt>
std::vector<std::int64_t> told_at(std::int64_t num_steps, const LossAt& loss,
                                  config::LossSpike options = kDefaults, LossHistory history = {}) {
  std::vector<std::int64_t> told;
  for (std::int64_t step = 1; step <= num_steps; ++step)
    if (watch_loss(options, step_of(step, loss(step)), history)) told.push_back(step);
  return told;
}

double noise(std::int64_t step) {  // in [-1, 1), the same every time
  return std::fmod(static_cast<double>(step) * 0.6180339887, 1.0) * 2 - 1;
}

TEST(LossWatch, ALossAHundredTimesAsHighIsASpike) {
  LossHistory history;
  std::optional<FoundSpike> found;
  for (std::int64_t step = 1; step <= 60 && !found; ++step)
    found = watch_loss(kDefaults, step_of(step, step == 57 ? 300 : 3 + 0.1 * noise(step)), history);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 57);
  EXPECT_EQ(found->num_before, 56U);
  EXPECT_NEAR(found->median, 3, 0.05);
  EXPECT_GT(found->z, 1000);
  EXPECT_EQ(found->num_spikes, 1);
}

TEST(LossWatch, ASlowRiseAFallAndNoiseAreNone) {
  const std::int64_t steps = 2000;
  for (const double slope : {1e-4, 1e-2, 1.0, 100.0})
    EXPECT_TRUE(told_at(steps, [&](auto step) { return 2 + slope * double(step); }).empty())
        << slope;
  EXPECT_TRUE(
      told_at(steps, [](auto step) { return 2 + 0.01 * double(step) + noise(step); }).empty());
  EXPECT_TRUE(told_at(steps, [](auto step) { return 10 / double(step); }).empty());
  EXPECT_TRUE(told_at(steps, [](auto) { return 1.5; }).empty());  // no deviation at all
  EXPECT_TRUE(told_at(steps, [](auto step) { return step == 900 ? 0.01 : 3.0; }).empty());
}

TEST(LossWatch, ItWaitsForTwentyLossesOrAWindow) {
  const auto spike_at = [](std::int64_t at) {
    return [at](std::int64_t step) { return step == at ? 300 : 3 + 0.1 * noise(step); };
  };
  EXPECT_TRUE(told_at(30, spike_at(20)).empty());
  EXPECT_EQ(told_at(30, spike_at(21)), std::vector<std::int64_t>{21});
  const config::LossSpike narrow{config::SpikeAction::warn, 8, 5};
  EXPECT_TRUE(told_at(30, spike_at(5), narrow).empty());
  EXPECT_EQ(told_at(30, spike_at(6), narrow), std::vector<std::int64_t>{6});
}

TEST(LossWatch, OneThatLastsIsToldOnceAndTheNextOneAgain) {
  const auto loss = [](std::int64_t step) {
    const bool high = (step >= 50 && step < 54) || step == 60;
    return high ? 50 : 3 + 0.1 * noise(step);
  };
  EXPECT_EQ(told_at(100, loss), (std::vector<std::int64_t>{50, 60}));
  // A new level is no spike any more once it fills half of the window.
  const auto level = [](std::int64_t step) { return step < 50 ? 3 : 9 + 0.1 * noise(step); };
  EXPECT_EQ(told_at(400, level), std::vector<std::int64_t>{50});
}

TEST(LossWatch, ZAndOffAreHeeded) {
  const auto loss = [](std::int64_t step) { return step == 90 ? 4.0 : 3 + 0.1 * noise(step); };
  const auto told = [&](config::SpikeAction action, double z) {
    return told_at(100, loss, {action, z, 50}).size();
  };
  EXPECT_EQ(told(config::SpikeAction::warn, 8), 1U);
  EXPECT_EQ(told(config::SpikeAction::warn, 30), 0U);
  EXPECT_EQ(told(config::SpikeAction::off, 8), 0U);
}

TEST(LossWatch, StepsThatWereNotAppliedDoNotCount) {
  LossHistory history;
  for (std::int64_t step = 1; step <= 40; ++step) watch_loss(kDefaults, step_of(step, 3), history);
  const LossHistory before = history;
  EXPECT_FALSE(watch_loss(kDefaults, step_of(41, 300, /*applied=*/false), history));
  EXPECT_FALSE(watch_loss(kDefaults, step_of(42, NAN), history));
  EXPECT_EQ(history, before);
}

TEST(LossWatch, ANarrowerWindowKeepsTheNewestLosses) {
  LossHistory history;
  for (std::int64_t step = 1; step <= 40; ++step)
    watch_loss(kDefaults, step_of(step, static_cast<double>(step)), history);
  watch_loss({config::SpikeAction::warn, 8, 3}, step_of(41, 41), history);
  EXPECT_EQ(history.recent, (std::vector<double>{39, 40, 41}));
}

TEST(LossWatch, StopIsANumericErrorThatNamesTheSamples) {
  const FoundSpike spike{57, 300, 3, 1980, 56, 1};
  EXPECT_NO_THROW(stop_at_spike(kDefaults, spike, {4, 17}));
  const config::LossSpike stop{config::SpikeAction::stop, 8, 200};
  EXPECT_WMTP_ERROR(stop_at_spike(stop, spike, std::vector<std::uint64_t>({4, 17})),
                    ErrorKind::numeric, "its samples are 4, 17");
}

}  // namespace
}  // namespace wmtp::test
