// A law of the step (docs/architecture.md, section 4): on a GPU the host waits for nothing between
// the upload of a batch and the reading of the step's numbers, and then for that step alone, so
// that it prepares one step while the GPU computes another.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <optional>

#include "training/stage_cases.h"
#include "wmtp/comm/groups.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::test {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);

class ForbiddenWaits {
 public:
  ForbiddenWaits() { cuda_tables().services.forbid_host_waits(true); }
  ~ForbiddenWaits() { cuda_tables().services.forbid_host_waits(false); }
  ForbiddenWaits(const ForbiddenWaits&) = delete;
  ForbiddenWaits& operator=(const ForbiddenWaits&) = delete;
};

std::vector<StageCase> all_cases() {
  std::vector<StageCase> cases = stage_cases();
  StageSetup over_ranks{.stage = StageKind::rho1};
  over_ranks.rho1.scope_ranks = true;
  cases.push_back({.name = "rho1 over ranks", .setup = over_ranks, .cached = true});
  return cases;
}

TEST(HostWaitsOnGpu, AreErrorsWhileTheyAreForbidden) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  const Tensor on_host = at::ones({4}), on_gpu = on_host.to(kGpu);
  {
    const ForbiddenWaits forbidden;
    EXPECT_THROW(on_gpu.select(0, 0).item<float>(), c10::Error);
    EXPECT_THROW(on_gpu.cpu(), c10::Error);
    EXPECT_THROW(on_host.to(kGpu), c10::Error);
  }
  EXPECT_EQ(on_gpu.select(0, 0).item<float>(), 1);
}

// The first step makes what is made once.
TEST(HostWaitsOnGpu, AreNotInAStepOfAnyStage) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  const auto gather = comm::make_single("gather", kGpu), reduce = comm::make_single("reduce", kGpu);
  for (StageCase& one : all_cases()) {
    SCOPED_TRACE(one.name);
    one.setup.device = kGpu;
    StageRun run(one.setup, {gather.get(), reduce.get()});
    const StageSteps steps = steps_of(one, {9, 13});
    run.step(steps[0]);
    // Its reading is no operator that waits: those would wait for the next step too.
    std::optional<training::StepResult> result;
    EXPECT_NO_THROW({
      const ForbiddenWaits forbidden;
      result = run.model().step().run(run.deal(steps[1])).read();
    });
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(result->applied);
  }
}

}  // namespace
}  // namespace wmtp::test
