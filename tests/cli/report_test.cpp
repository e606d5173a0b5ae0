#include "wmtp/cli/report.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace wmtp::cli {
namespace {

constexpr c10::SourceLocation kHere{"launch", "kernel.cu", 1};

Error after_device_error(int code, const std::string& text) {
  return as_error(c10::AcceleratorError(kHere, code, text));
}

TEST(AsError, ADeviceErrorIsJudgedByItsCode) {
  const Error bad_launch = after_device_error(9, "CUDA error: invalid configuration argument\nhow");
  EXPECT_EQ(exit_code(bad_launch.kind()), ExitCode::internal);
  EXPECT_EQ(bad_launch.fact(), "CUDA error: invalid configuration argument") << "one line";
  EXPECT_EQ(exit_code(after_device_error(700, "illegal address").kind()), ExitCode::internal);
  EXPECT_EQ(exit_code(after_device_error(209, "no kernel image").kind()), ExitCode::config);
  EXPECT_EQ(exit_code(after_device_error(214, "uncorrectable ECC").kind()), ExitCode::retry);
}

TEST(AsError, ALostPeerIsTriedAgainAndAShapeAtenRefusesIsNot) {
  const c10::DistBackendError lost(kHere, "NCCL error: remote process exited");
  EXPECT_EQ(exit_code(as_error(lost).kind()), ExitCode::retry);
  const c10::Error refused(kHere, "head_size must be a multiple of 8");
  EXPECT_EQ(exit_code(as_error(refused).kind()), ExitCode::internal);
  const c10::OutOfMemoryError full(kHere, "CUDA out of memory. Tried to allocate\nmore");
  EXPECT_EQ(exit_code(as_error(full).kind()), ExitCode::config);
}

}  // namespace
}  // namespace wmtp::cli
