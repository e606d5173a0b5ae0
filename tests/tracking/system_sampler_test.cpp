#include "wmtp/tracking/system/system_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>

#include "wmtp/core/time.h"

namespace wmtp::tracking {
namespace {

using ::testing::HasSubstr;

template <class Condition>
void wait_until(Condition condition) {
  const Clock::time_point start = Clock::now();
  while (!condition()) {
    ASSERT_LT(seconds_since(start), 30);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(SystemNames, AreThoseOfMlflowAndAllDifferent) {
  EXPECT_EQ(system_metric(SystemValue::memory_mb), "system/system_memory_usage_megabytes");
  EXPECT_EQ(system_metric(SystemValue::gpu_percent), "system/gpu_utilization_percentage");
  EXPECT_EQ(gpu_metric(SystemValue::gpu_percent, 0), "system/gpu_0_utilization_percentage");
  EXPECT_EQ(gpu_metric(SystemValue::gpu_power_w, 7), "system/gpu_7_power_usage_watts");
  std::set<std::string> names;
  for (std::size_t k = 0; k < kNumSystemValues; ++k)
    names.insert(system_metric(static_cast<SystemValue>(k)));
  EXPECT_EQ(names.size(), kNumSystemValues);
}

TEST(SystemSampler, MeansAndMaximaSinceTheLastTake) {
  // What was read is added before the next reading begins.
  std::atomic<int> num_begun = 0, num_allowed = 3;
  SystemSampler sampler(
      [&](SystemReading& reading) {
        const int number = ++num_begun;
        wait_until([&] { return number <= num_allowed; });
        reading[SystemValue::cpu_percent] = number == 2 ? 50 : number == 4 ? -3 : 10;
        if (number == 1) reading[SystemValue::gpu_power_w] = 7;
      },
      1e-4);
  wait_until([&] { return num_begun == 4; });
  SystemSummary summary = sampler.take();
  EXPECT_TRUE(summary.fresh);
  EXPECT_DOUBLE_EQ(summary.mean[SystemValue::cpu_percent], 70.0 / 3);
  EXPECT_EQ(summary.max[SystemValue::cpu_percent], 50);
  EXPECT_EQ(summary.mean[SystemValue::gpu_power_w], 7);  // of the readings that have it
  EXPECT_TRUE(is_absent(summary.mean[SystemValue::gpu_percent]));
  summary = sampler.take();
  EXPECT_FALSE(summary.fresh);
  EXPECT_EQ(summary.mean[SystemValue::cpu_percent], 10);  // the last reading, not what was taken
  EXPECT_TRUE(is_absent(summary.mean[SystemValue::gpu_power_w]));
  num_allowed = 4;
  wait_until([&] { return num_begun == 5; });
  summary = sampler.take();
  EXPECT_EQ(summary.max[SystemValue::cpu_percent], -3);  // of what was read, not of 0
  num_allowed = 1 << 30;
}

TEST(SystemSampler, TheFirstReadingIsMadeAtOnceAndTheEndDoesNotWaitForTheNext) {
  const Clock::time_point start = Clock::now();
  std::atomic<int> num_read = 0;
  {
    SystemSampler sampler([&](SystemReading&) { ++num_read; }, 1e300);
    wait_until([&] { return num_read == 1; });
  }
  EXPECT_EQ(num_read, 1);
  EXPECT_LT(seconds_since(start), 30);
}

TEST(SystemSampler, AReadingThatThrowsIsToldOnce) {
  testing::internal::CaptureStderr();
  {
    std::atomic<int> num_read = 0;
    SystemSampler sampler(
        [&](SystemReading&) {
          ++num_read;
          throw std::runtime_error("no such thing");
        },
        1e-4);
    wait_until([&] { return num_read > 3; });
    EXPECT_TRUE(is_absent(sampler.take().mean[SystemValue::cpu_percent]));
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("no such thing"), said.rfind("no such thing"));
  EXPECT_THAT(said, HasSubstr("no such thing"));
}

TEST(SystemSampler, TakingAndEndingDoNotWaitForAReadingThatHangs) {
  struct Hanging {
    std::atomic<bool> begun = false, released = false, ended = false;
  };
  const auto hanging = std::make_shared<Hanging>();  // the thread outlives the sampler
  testing::internal::CaptureStderr();
  const Clock::time_point start = Clock::now();
  {
    SystemSampler sampler(
        [hanging](SystemReading&) {
          hanging->begun = true;
          wait_until([&] { return hanging->released.load(); });
          hanging->ended = true;
        },
        1000);
    wait_until([&] { return hanging->begun.load(); });
    EXPECT_FALSE(sampler.take().fresh);
    EXPECT_FALSE(hanging->ended);
  }
  EXPECT_LT(seconds_since(start), 20);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("does not end"));
  hanging->released = true;
  wait_until([&] { return hanging->ended.load(); });
}

}  // namespace
}  // namespace wmtp::tracking
