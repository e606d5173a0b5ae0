// The launchers of the GPU plugin on host memory: in whatever order the threads run they give the
// same bits.
#include <gtest/gtest.h>

#include "emulated_gpu/kernels/launcher_cases.h"
#include "emulated_gpu/kernels/runtime/order.h"

namespace wmtp::emulated::testing {
namespace {

std::vector<std::byte> run(const LauncherCase& one, bool off_boundary, const std::string& order) {
  set_order(order);
  DeviceMemory memory(off_boundary);
  EXPECT_EQ(one.launch(memory), 0) << one.name;
  set_order("forward");
  return memory.contents();
}

TEST(EmulatedLaunchers, TheOrderOfThreadsChangesNoBit) {
  for (const LauncherCase& one : launcher_cases())
    for (const bool off_boundary : {false, true}) {
      const auto wanted = run(one, off_boundary, "forward");
      EXPECT_EQ(run(one, off_boundary, off_boundary ? "5" : "reversed"), wanted) << one.name;
    }
}

TEST(EmulatedLaunchers, NothingToDoIsRefusedAsByTheHardware) {
  const kernels::CudaKernels& table = kernels::cuda_kernels();
  const int code = table.adamw({}, nullptr);
  EXPECT_EQ(code, 9);
  EXPECT_STREQ(table.error_text(code), "invalid configuration argument");
}

}  // namespace
}  // namespace wmtp::emulated::testing
