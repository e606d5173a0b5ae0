// Exact resume: a run that is cut after any step and goes on ends with the state of the run that
// was not, bit for bit.
#include <gtest/gtest.h>

#include "run/resumed_runs.h"

namespace wmtp::test {
namespace {

TEST_F(ExactResume, EveryCutOfVerifiableWithAdaptersToTheEnd) {
  Runs(session_, folder_.path(), {"verifiable", true}).expect_all_cuts(1, /*to_the_end=*/true);
}

TEST_F(ExactResume, EveryCutOfVerifiable) {
  Runs(session_, folder_.path(), {"verifiable", false}).expect_all_cuts(1, false);
}

TEST_F(ExactResume, EveryCutOfCritic) {
  for (const bool lora : {false, true})
    Runs(session_, folder_.path(), {"critic", lora}).expect_all_cuts(1, false);
}

TEST_F(ExactResume, EveryCutOfBaselineAndOfRho1AgainstOneOfItsCheckpoints) {
  for (const bool lora : {false, true}) {
    Runs baseline(session_, folder_.path(), {"baseline", lora});
    baseline.expect_all_cuts(1, false);
    Runs(session_, folder_.path(), {"rho1", lora, baseline.straight(20).string()})
        .expect_all_cuts(1, false);
  }
}

TEST_F(ExactResume, SavingChangesNothing) {
  Runs runs(session_, folder_.path(), {"verifiable", true});
  runs.run_straight();
  arm("step.loss:nth=8=damage");
  TinyRun quiet(*session_, folder_.path(), {"verifiable", true},
                {save_dir(folder_ / "quiet"), "checkpoint.async=true"});
  EXPECT_EQ(quiet.run(), run::RunEnd::completed);
  EXPECT_EQ(state_hash(folder_ / "quiet" / checkpoint_at(kTinySteps)),
            state_hash(runs.straight(kTinySteps)));
}

// Every stage with each of the recipes whose moments have fewer bits than fp32.
TEST_F(ExactResume, WithMomentsOfFewerBits) {
  constexpr std::int64_t kEvery = 13;
  const std::vector<std::string> int8{"training.optimizer.precision=int8"},
      bf16{"training.optimizer.precision=bf16_moments"};
  Runs baseline(session_, folder_.path(), {"baseline", false}, int8);
  baseline.expect_all_cuts(kEvery, false);
  Runs(session_, folder_.path(), {"rho1", true, baseline.straight(20).string()}, int8)
      .expect_all_cuts(kEvery, false);
  Runs(session_, folder_.path(), {"critic", true}, int8).expect_all_cuts(kEvery, false);
  Runs(session_, folder_.path(), {"verifiable", false}, int8).expect_all_cuts(kEvery, false);
  Runs(session_, folder_.path(), {"verifiable", true}, bf16).expect_all_cuts(kEvery, false);
}

TEST_F(ExactResume, WithTwoThreads) {
  at::set_num_threads(2);
  Runs(session_, folder_.path(), {"verifiable", true}).expect_all_cuts(soak() ? 1 : 3, false);
}

// The planned steps are counted anew from the cursor: epochs that end within a step, and a part of
// one at the end, under a schedule that needs the total.
TEST_F(ExactResume, PlannedStepsOfACosineAreFoundAgain) {
  Runs runs(session_, folder_.path(), {"baseline", false},
            {"training.max_steps=null", "training.n_epochs=3.35", "data_sampling.n_samples=23",
             "training.lr_scheduler.type=cosine"});
  runs.expect_all_cuts(3, false);
  EXPECT_TRUE(fs::exists(runs.straight(kTinySteps)));
  EXPECT_FALSE(fs::exists(runs.straight(kTinySteps + 1)));
}

}  // namespace
}  // namespace wmtp::test
