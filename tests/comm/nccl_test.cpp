// The NCCL body on a GPU machine, one rank: the same suite as every other body.
#include <gtest/gtest.h>

#include "comm/conformance.h"
#include "support/temp_dir.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::test {
namespace {

TEST(NcclOnGpu, Conforms) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  comm::prepare_nccl_environment();
  comm::GroupSpec spec;
  spec.name = "nccl";
  spec.device = c10::Device(c10::kCUDA, 0);
  spec.store = comm::Store::in_process();
  const auto factory = reinterpret_cast<comm::NcclFactory>(cuda_tables().nccl_factory);
  const auto group = comm::make_nccl(spec, factory);
  EXPECT_EQ(group->backend(), "nccl");
  comm::verify_group(*group);
  check_conformance(*group);
}

}  // namespace
}  // namespace wmtp::test
