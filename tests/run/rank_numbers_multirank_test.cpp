// What the report shows of all ranks: means and maxima over those that have a number.
#include "wmtp/run/report/rank_numbers.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/multi_process.h"
#include "wmtp/comm/session.h"
#include "wmtp/run/report/system_report.h"

namespace wmtp::test {
namespace {

using run::Reduction;
using tracking::kAbsent;
using tracking::SystemValue;

std::unique_ptr<comm::ProcessGroupSession> connected_session() {
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  return session;
}

TEST(RankNumbersMultirank, MeansAndMaximaOverTheRanksThatHaveOne) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  const auto session = connected_session();
  const double rank = session->rank();
  run::RankNumbers numbers(session->reduce_group(),
                           {{"rises", rank, Reduction::maximum},
                            {"falls", -rank, Reduction::maximum},
                            {"mean", rank * rank, Reduction::mean},
                            {"some", rank == 1 ? kAbsent : rank - 5, Reduction::mean},
                            {"some_max", rank == 0 ? kAbsent : rank - 5, Reduction::maximum},
                            {"none", kAbsent, Reduction::mean}});
  const training::Metrics expected{
      {"rises", 2}, {"falls", 0}, {"mean", 5.0 / 3}, {"some", -4}, {"some_max", -3}};
  EXPECT_EQ(numbers.reduced(), expected);
  EXPECT_EQ(numbers.reduced(1, 2), training::Metrics({{"falls", 0}, {"mean", 5.0 / 3}}));
  EXPECT_EQ(numbers.rows().at(2).at(1), -2);
  EXPECT_TRUE(run::RankNumbers().reduced().empty());
  session->finish();
}

// Rank 1 has no GPU, or one that tells nothing: its place in the row stays, and the others' means
// are of those that have one.
TEST(RankNumbersMultirank, ReadingsOfRanksWithDifferentHardware) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  const auto session = connected_session();
  const int rank = session->rank();
  tracking::SystemSummary summary;
  summary.fresh = rank == 0;  // what the others have is older, and counts all the same
  summary.mean[SystemValue::cpu_percent] = 10.0 * rank;
  summary.max[SystemValue::cpu_percent] = 10.0 * rank + 5;
  if (rank != 1) {
    summary.mean[SystemValue::gpu_power_w] = 100.0 * (rank + 1);
    summary.max[SystemValue::gpu_power_w] = 500 - 100.0 * rank;
  }
  run::SystemNumbers numbers(session->reduce_group(), {{"system/host_memory_gb", rank}},
                             {{"comm/wait_ms", rank}}, summary);
  EXPECT_EQ(numbers.measured(),
            training::Metrics(
                {{"system/host_memory_gb", 2}, {"comm/wait_ms", 1}, {"comm/wait_ms_max", 2}}));
  const training::Metrics expected{
      {"system/cpu_utilization_percentage", 10}, {"system/cpu_utilization_percentage_max", 25},
      {"system/gpu_power_usage_watts", 200},     {"system/gpu_power_usage_watts_max", 500},
      {"system/gpu_0_power_usage_watts", 100},   {"system/gpu_2_power_usage_watts", 300}};
  EXPECT_EQ(numbers.readings(), rank == 0 ? expected : training::Metrics());
  EXPECT_TRUE(run::SystemNumbers().readings().empty());
  session->finish();
}

}  // namespace
}  // namespace wmtp::test
