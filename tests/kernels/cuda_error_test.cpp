// Which CUDA errors a launcher may try again after (exit code 75), and which never.
#include <gtest/gtest.h>

#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/cuda_error.h"

namespace wmtp::kernels {
namespace {

ExitCode exit_after(int code) {
  return exit_code(launch_error("rope", code, "text").kind());
}

TEST(CudaErrors, APermanentFaultNeverEndsWithRetry) {
  const std::vector<std::pair<int, const char*>> permanent{
      {1, "invalid argument"},           {9, "invalid configuration argument"},
      {17, "invalid device pointer"},    {53, "prior launch failure"},
      {98, "invalid device function"},   {200, "device kernel image is invalid"},
      {209, "no kernel image"},          {400, "invalid resource handle"},
      {700, "illegal memory access"},    {701, "too many resources requested"},
      {710, "device-side assert"},       {714, "hardware stack error"},
      {715, "illegal instruction"},      {716, "misaligned address"},
      {717, "not in global memory"},     {718, "invalid program counter"},
      {719, "unspecified launch fault"}, {720, "too many blocks"},
      {801, "operation not supported"},  {803, "driver mismatch"},
      {912, "invalid cluster size"},     {2, "out of memory"}};
  for (const auto& [code, text] : permanent)
    EXPECT_NE(exit_after(code), ExitCode::retry) << code << ": " << text;
}

TEST(CudaErrors, FaultsOfTheHardwareAreTriedAgain) {
  for (const int code : {46, 214, 220, 226, 702, 802, 805, 806, 807, 911, 999})
    EXPECT_EQ(exit_after(code), ExitCode::retry) << code;
}

TEST(CudaErrors, WhatTheUserCanChangeIsAConfigError) {
  for (const int code : {2, 35, 98, 100, 209, 222, 803})
    EXPECT_EQ(exit_after(code), ExitCode::config) << code;
  EXPECT_EQ(exit_after(9), ExitCode::internal);
  EXPECT_EQ(exit_after(12345), ExitCode::internal) << "a code of a later CUDA";
}

TEST(CudaErrors, TheMessageNamesOpTextAndCode) {
  const Error error = launch_error("rope", 9, "invalid configuration argument");
  EXPECT_EQ(error.fact(), "rope: the launch failed: invalid configuration argument (CUDA error 9)");
  EXPECT_NE(error.hint(), "");
}

}  // namespace
}  // namespace wmtp::kernels
