#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wmtp/cli/doctor/machine_checks.h"
#include "wmtp/cli/versions.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kLoaderSays = "cannot load lib/libwmtp_cuda.so: libcufile.so.0: not found";

Versions unloaded(bool driver_found) {
  Versions versions;
  versions.plugin_note = kLoaderSays;
  versions.driver_found = driver_found;
  return versions;
}

TEST(DoctorGpu, WithoutADriverTheDriverIsWhatIsMissing) {
  const Check none = check_gpus(unloaded(false), 0);
  EXPECT_EQ(none.health, Health::ok);
  EXPECT_EQ(none.fact, "none in use: there is no NVIDIA driver (libcuda.so.1 is not found)");
  EXPECT_THAT(none.details, IsEmpty());
  const Check two = check_gpus(unloaded(false), 2);
  EXPECT_EQ(two.health, Health::warn);
  EXPECT_EQ(two.fact,
            "2 installed, none usable: there is no NVIDIA driver (libcuda.so.1 is not found)");
  EXPECT_THAT(two.fix, HasSubstr("--gpus all"));
}

TEST(DoctorGpu, WithADriverTheLoaderIsQuotedInALineOfItsOwn) {
  const Check check = check_gpus(unloaded(true), 1);
  EXPECT_EQ(check.fact,
            "1 installed, none usable: the driver is there, the GPU plugin cannot be used");
  EXPECT_THAT(check.details, ElementsAre(kLoaderSays));
  EXPECT_THAT(check.fix, HasSubstr("CUDA wheels"));
}

TEST(DoctorGpu, APluginThatDoesNotLoadBlamesTheDriverWhereThereIsNone) {
  const std::string why = load_cuda_plugin("/nowhere/libwmtp_cuda.so");
  if (cuda_driver_found())
    EXPECT_THAT(why, HasSubstr("cannot load /nowhere/libwmtp_cuda.so: "));
  else
    EXPECT_EQ(why, "there is no NVIDIA driver (libcuda.so.1 is not found)");
}

}  // namespace
}  // namespace wmtp::cli
