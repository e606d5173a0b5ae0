// The numbers of a GPU, from libraries that stand in for the driver's (support/nvml).
#include "wmtp/tracking/system/gpu_reader.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/nvml/fake_nvml.h"
#include "support/paths.h"

namespace wmtp::tracking {
namespace {

using test::FakeNvml;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kUuid = "00112233445566778899aabbccddeeff";

std::string fake_library(const std::string& kind) {
  return (test::build_dir() / "lib/fake_nvml" / ("libfake_nvml_" + kind + ".so")).string();
}

// Its state as it is at first; it is the same library for all that open it.
FakeNvml& reset_fake(const std::string& kind) {
  void* const library = ::dlopen(fake_library(kind).c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto get = reinterpret_cast<FakeNvml* (*)()>(::dlsym(library, "fake_nvml"));
  FakeNvml& fake = *get();
  fake = FakeNvml();
  return fake;
}

SystemReading read_once(GpuReader& reader) {
  SystemReading reading;
  reader.read(reading);
  return reading;
}

int num_present(const SystemReading& reading) {
  int count = 0;
  for (std::size_t k = 0; k < kNumSystemValues; ++k)
    count += is_absent(reading[static_cast<SystemValue>(k)]) ? 0 : 1;
  return count;
}

std::size_t num_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(GpuReader, EveryValueOfAHealthyGpu) {
  FakeNvml& fake = reset_fake("new");
  {
    GpuReader reader(kUuid, fake_library("new"));
    EXPECT_EQ(fake.num_inits, 0);  // not before the first reading
    testing::internal::CaptureStderr();
    const SystemReading reading = read_once(reader);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(reading[SystemValue::gpu_percent], 83);
    EXPECT_EQ(reading[SystemValue::gpu_memory_mb], 20'000);
    EXPECT_EQ(reading[SystemValue::gpu_memory_percent], 25);
    EXPECT_EQ(reading[SystemValue::gpu_power_w], 350.5);
    EXPECT_EQ(reading[SystemValue::gpu_power_percent], 50);
    EXPECT_EQ(reading[SystemValue::gpu_sm_clock_mhz], 1980);
    EXPECT_EQ(reading[SystemValue::gpu_memory_clock_mhz], 3201);
    EXPECT_EQ(reading[SystemValue::gpu_temperature_c], 61);
    EXPECT_EQ(reading[SystemValue::gpu_throttled], 0);
    EXPECT_EQ(num_present(reading), 9);
    read_once(reader);
    EXPECT_EQ(fake.num_inits, 1);
  }
  EXPECT_EQ(fake.num_shutdowns, 1);
}

TEST(GpuReader, AnOldDriverCountsWhatItKeepsForItselfAsUsed) {
  reset_fake("old").reasons = kNvmlHwThermal;
  GpuReader reader(kUuid, fake_library("old"));
  testing::internal::CaptureStderr();
  const SystemReading reading = read_once(reader);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("throttled: thermal"));
  EXPECT_EQ(reading[SystemValue::gpu_memory_mb], 21'000);
  EXPECT_EQ(reading[SystemValue::gpu_throttled], 1);
  EXPECT_EQ(num_present(reading), 9);
}

TEST(GpuReader, FunctionsThatTheLibraryLacksAreAbsentValues) {
  reset_fake("bare");
  GpuReader reader(kUuid, fake_library("bare"));
  testing::internal::CaptureStderr();
  const SystemReading reading = read_once(reader);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(reading[SystemValue::gpu_percent], 83);
  EXPECT_EQ(num_present(reading), 1);
}

TEST(GpuReader, WhatIsNotSupportedIsAbsentWithoutAWord) {
  reset_fake("new").status = kNvmlNotSupported;
  GpuReader reader(kUuid, fake_library("new"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(num_present(read_once(reader)), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(GpuReader, ALostGpuIsToldOnceAndLeftAlone) {
  FakeNvml& fake = reset_fake("new");
  GpuReader reader(kUuid, fake_library("new"));
  EXPECT_EQ(num_present(read_once(reader)), 9);
  fake.calls_until_lost = 4;
  testing::internal::CaptureStderr();
  const SystemReading broken = read_once(reader);
  EXPECT_FALSE(is_absent(broken[SystemValue::gpu_memory_mb]));
  EXPECT_TRUE(is_absent(broken[SystemValue::gpu_power_percent]));
  EXPECT_TRUE(is_absent(broken[SystemValue::gpu_temperature_c]));
  const int calls = fake.num_calls;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(num_present(read_once(reader)), 0);
  EXPECT_EQ(fake.num_calls, calls);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(num_lines(said), 1u) << said;
  EXPECT_THAT(said, HasSubstr("GPU is lost"));
  EXPECT_THAT(said, Not(HasSubstr("\x1b[2J")));  // the library's text is escaped
}

TEST(GpuReader, ErrorsThatPassAreToldOnceAndTriedAgain) {
  FakeNvml& fake = reset_fake("new");
  fake.status = 999;
  GpuReader reader(kUuid, fake_library("new"));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(num_present(read_once(reader)), 0);
  fake.status = 0;
  EXPECT_EQ(num_present(read_once(reader)), 9);
  EXPECT_EQ(num_lines(testing::internal::GetCapturedStderr()), 1u);
}

TEST(GpuReader, WithoutLibraryDriverOrGpuThereIsOneLine) {
  FakeNvml& fake = reset_fake("new");
  const auto said_by = [](const std::string& uuid, const std::string& library) {
    testing::internal::CaptureStderr();
    {
      GpuReader reader(uuid, library);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(num_present(read_once(reader)), 0);
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(num_lines(said), 1u) << said;
    return said;
  };
  EXPECT_THAT(said_by(kUuid, "libno-such-nvml.so.1"), HasSubstr("cannot open NVML"));
  EXPECT_THAT(said_by(kUuid, "libc.so.6"), HasSubstr("has no nvmlInit"));
  EXPECT_THAT(said_by("ff112233445566778899aabbccddeeff", fake_library("new")),
              HasSubstr("knows no GPU ff112233"));
  fake.init_status = 9;
  EXPECT_THAT(said_by(kUuid, fake_library("new")), HasSubstr("some error\" (9)"));
  EXPECT_EQ(fake.num_shutdowns, 1);  // of the one that was initialised
}

TEST(GpuReader, ThePartOfAGpuIsFoundUnderItsOwnKind) {
  reset_fake("new").uuid = "MIG-00112233-4455-6677-8899-aabbccddeeff";
  GpuReader part(kUuid, fake_library("new"));
  EXPECT_EQ(num_present(read_once(part)), 9);
  EXPECT_EQ(nvml_uuid("GPU-1234", "MIG"), "GPU-1234");  // as nvidia-smi says it
}

TEST(SlowdownNews, AReasonIsToldWhenItBeginsAndNotAgainForAWhile) {
  SlowdownNews news;
  const Clock::time_point start{};
  const auto after = [&](int minutes) { return start + std::chrono::minutes(minutes); };
  EXPECT_EQ(news.told(0x1 | 0x2, after(0)), "");  // idle, and clocks as they were asked for
  EXPECT_EQ(news.told(kNvmlPowerCap, after(1)), "power cap");
  EXPECT_EQ(news.told(kNvmlPowerCap, after(20)), "");  // it has not ended since
  EXPECT_EQ(news.told(kNvmlPowerCap | kNvmlHwSlowdown | kNvmlHwThermal, after(21)),
            "thermal, hw slowdown");
  EXPECT_EQ(news.told(0, after(22)), "");
  EXPECT_EQ(news.told(kNvmlPowerCap | kNvmlSwThermal, after(23)), "power cap");
  EXPECT_EQ(news.told(0, after(24)), "");
  EXPECT_EQ(news.told(kNvmlPowerBrake | kNvmlSwThermal, after(40)), "thermal, hw slowdown");
}

}  // namespace
}  // namespace wmtp::tracking
