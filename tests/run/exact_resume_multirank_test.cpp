// Exact resume on several ranks, and the long tier: every cut under every strategy.
#include <gtest/gtest.h>

#include "run/resumed_runs.h"

namespace wmtp::test {
namespace {

// COLLECTIVE: all ranks of a launch in one folder.
void expect_cuts_on_ranks(const std::vector<TinyStage>& stages, std::int64_t every,
                          const std::vector<std::string>& common_keys = {}) {
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  if (session->rank() == 0) make_tiny_data(worker_folder());
  session->gather_group().barrier("data");
  for (TinyStage stage : stages) {
    std::vector<std::string> keys = common_keys;
    if (stage.stage == "rho1") {
      // Against a checkpoint of the baseline, which comes before it in the list; without cached
      // signals, which another rank may have computed in other company (docs/signals.md).
      stage.reference =
          Runs(session, worker_folder(), {"baseline", stage.lora}).straight(20).string();
      keys.push_back("training.signal_cache=false");
    }
    Runs(session, worker_folder(), stage, keys).expect_all_cuts(every, false);
  }
  session->finish();
}

TEST(ExactResumeMultirank, EveryCutOfVerifiableWithAdaptersOnTwoRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  expect_cuts_on_ranks({{"verifiable", true}}, 1);
}

TEST(ExactResumeMultirank, FiveCutsOfBaselineAndRho1OnTwoRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  expect_cuts_on_ranks({{"baseline", false}, {"rho1", false}, {"baseline", true}, {"rho1", true}},
                       8);
}

TEST(ExactResumeMultirank, FiveCutsOfCriticAndOfWholeVerifiableOnTwoRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  expect_cuts_on_ranks({{"critic", false}, {"critic", true}, {"verifiable", false}}, 8);
}

TEST(ExactResumeMultirank, ThreeCutsOnFourRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 4, .timeout_s = 600}));
  expect_cuts_on_ranks({{"verifiable", false}}, 16);
}

TEST(ExactResumeMultirank, CutsInGroupsOfTwoOnFourRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 4, .timeout_s = 600}));
  expect_cuts_on_ranks(
      {{"verifiable", true}}, 16,
      {"distributed.fsdp.sharding_strategy=HYBRID_SHARD", "distributed.fsdp.shard_group_size=2"});
}

// Every cut on so many ranks under one strategy: the long tier, a case of its own each.
class ExactResumeCellMultirank : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(ExactResumeCellMultirank, EveryCut) {
  const auto [strategy, ranks] = GetParam();
  const int every = soak_factor() >= 50 ? 1 : 13;
  if (is_worker())
    return expect_cuts_on_ranks(
        {{"verifiable", true}}, every,
        {fmt::format("distributed.fsdp.sharding_strategy={}", strategy),
         fmt::format("distributed.fsdp.shard_group_size={}", ranks % 2 == 0 ? ranks / 2 : 1)});
  if (!soak()) GTEST_SKIP() << "WMTP_SOAK is not set";
  expect_success(launch_ranks({.ranks = ranks, .timeout_s = 7200}));
  fmt::print("G11: {} cuts of {} on {} ranks go on bit-equal\n", (kTinySteps - 2) / every + 1,
             strategy, ranks);
}

INSTANTIATE_TEST_SUITE_P(LongTier, ExactResumeCellMultirank,
                         testing::Combine(testing::Values("NO_SHARD", "SHARD_GRAD_OP", "FULL_SHARD",
                                                          "HYBRID_SHARD"),
                                          testing::Range(1, 5)));

}  // namespace
}  // namespace wmtp::test
