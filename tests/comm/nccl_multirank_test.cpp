// WMTP_TEST_CUDA=1 only: the suite over NCCL with one rank, in a process of its own, since the
// plugin must be loaded before LibTorch is used.
#include <gtest/gtest.h>

#include <filesystem>

#include "comm/conformance.h"
#include "support/multi_process.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::test {
namespace {

TEST(NcclMultirank, OneRankConforms) {
  if (worker_env("WMTP_TEST_CUDA") != "1") GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 1, .timeout_s = 120}));
  const auto program = std::filesystem::canonical("/proc/self/exe");
  const auto library = program.parent_path().parent_path() / "lib" / "libwmtp_cuda.so";
  ASSERT_EQ(load_cuda_plugin(library.string()), "");
  const auto factory = reinterpret_cast<comm::NcclFactory>(cuda_tables().nccl_factory);
  const comm::GroupSpec spec{
      .name = "solo", .device = c10::Device(c10::kCUDA, 0), .store = comm::Store::in_process()};
  const auto group = comm::make_nccl(spec, factory);
  EXPECT_EQ(group->backend(), "nccl");
  check_conformance(*group);
}

}  // namespace
}  // namespace wmtp::test
