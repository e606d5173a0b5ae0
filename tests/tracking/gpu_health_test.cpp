// How a GPU is, from the libraries that stand in for the driver's (support/nvml).
#include "wmtp/tracking/system/gpu_health.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/nvml/fake_nvml.h"
#include "support/paths.h"

namespace wmtp::tracking {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kGpu = "00112233445566778899aabbccddeeff";

std::string standing_in(const std::string& kind) {
  return (test::build_dir() / "lib/fake_nvml" / ("libfake_nvml_" + kind + ".so")).string();
}

test::FakeNvml& fresh_fake(const std::string& kind) {
  void* const library = ::dlopen(standing_in(kind).c_str(), RTLD_NOW | RTLD_LOCAL);
  test::FakeNvml& fake = *reinterpret_cast<test::FakeNvml* (*)()>(::dlsym(library, "fake_nvml"))();
  return fake = test::FakeNvml();
}

TEST(GpuHealth, TemperatureErrorsAndSlowdowns) {
  test::FakeNvml& fake = fresh_fake("new");
  fake.ecc = 3;
  fake.reasons = kNvmlHwThermal | kNvmlPowerCap;
  const GpuHealth health = read_gpu_health(kGpu, standing_in("new"));
  EXPECT_EQ(health.temperature_c, 61U);
  EXPECT_EQ(health.uncorrected_ecc, 3U);
  EXPECT_THAT(health.slowdowns, ElementsAre("thermal", "power cap"));
  EXPECT_FALSE(health.needs_reset);
  EXPECT_EQ(health.problem, "");
  EXPECT_EQ(fake.num_inits, fake.num_shutdowns);
}

TEST(GpuHealth, ALostGpuIsSaidSo) {
  fresh_fake("new").calls_until_lost = 1;
  EXPECT_TRUE(read_gpu_health(kGpu, standing_in("new")).needs_reset);
}

TEST(GpuHealth, WhatIsNotToldIsAbsent) {
  fresh_fake("bare");
  const GpuHealth health = read_gpu_health(kGpu, standing_in("bare"));
  EXPECT_FALSE(health.temperature_c || health.uncorrected_ecc || health.needs_reset);
  EXPECT_THAT(health.slowdowns, IsEmpty());
  EXPECT_THAT(read_gpu_health("another", standing_in("bare")).problem, HasSubstr("no GPU another"));
  EXPECT_THAT(read_gpu_health(kGpu, "libno-such.so").problem, HasSubstr("cannot open NVML"));
}

}  // namespace
}  // namespace wmtp::tracking
