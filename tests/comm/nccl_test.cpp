// The NCCL body on a GPU machine, one rank: the same suite as every other body; and times on a
// stream.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "comm/conformance.h"
#include "support/temp_dir.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::test {
namespace {

std::unique_ptr<comm::Communicator> nccl_of_one() {
  comm::prepare_nccl_environment();
  comm::GroupSpec spec;
  spec.name = "nccl";
  spec.device = c10::Device(c10::kCUDA, 0);
  spec.store = comm::Store::in_process();
  const auto factory = reinterpret_cast<comm::NcclFactory>(cuda_tables().nccl_factory);
  return comm::make_nccl(spec, factory);
}

TEST(NcclOnGpu, Conforms) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  const auto group = nccl_of_one();
  EXPECT_EQ(group->backend(), "nccl");
  comm::verify_group(*group);
  check_conformance(*group);
}

TEST(NcclOnGpu, WaitsAreTimedOnTheStreamWhereThatIsAskedFor) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  const auto group = nccl_of_one();
  constexpr std::int64_t kNumel = std::int64_t{1} << 28;  // 1 GiB: a copy of it takes a while
  const Tensor sum = at::zeros({kNumel}, c10::TensorOptions().device(group->device()));
  const Tensor out = at::empty_like(sum);
  group->meter().take();
  group->all_gather(out, sum).wait();
  const auto untimed = group->meter().take();
  EXPECT_EQ(untimed.of(comm::CollectiveKind::all_gather).bytes, kNumel * 4);
  EXPECT_TRUE(untimed.open.empty());

  cuda_tables().services.synchronize();
  group->meter().time_streams(true);
  const Moment begun = Moment::now(group->device());
  group->all_gather(out, sum).wait();
  const Moment ended = Moment::now(group->device());
  group->meter().time_streams(false);
  auto timed = group->meter().take();
  EXPECT_EQ(timed.open.size(), 1u);  // the host has not waited
  cuda_tables().services.synchronize();
  ASSERT_TRUE(timed.settle());
  const comm::CollectiveSums& sums = timed.of(comm::CollectiveKind::all_gather);
  const double all_s = begun.until(ended).value();
  // No memory copies 1 GiB in less than 10 us.
  EXPECT_GT(sums.waited_s, 1e-5);
  EXPECT_LE(sums.waited_s, sums.duration_s + 1e-6);  // events have half a microsecond
  EXPECT_LE(sums.duration_s, all_s + 1e-6);
}

TEST(NcclOnGpu, AMomentThatTheStreamHasNotReachedIsAbsent) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  const c10::Device device(c10::kCUDA, 0);
  const Tensor large = at::zeros({std::int64_t{1} << 28}, c10::TensorOptions().device(device));
  cuda_tables().services.synchronize();
  const Moment begun = Moment::now(device);
  for (int i = 0; i < 100; ++i) large.add_(1);  // tens of milliseconds of work
  const Moment ended = Moment::now(device);
  EXPECT_FALSE(begun.until(ended));
  cuda_tables().services.synchronize();
  EXPECT_GT(begun.until(ended).value(), 0);
}

}  // namespace
}  // namespace wmtp::test
