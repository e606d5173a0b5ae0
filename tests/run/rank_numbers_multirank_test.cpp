// What the report shows of all ranks is the largest, whichever rank has it.
#include "wmtp/run/report/rank_numbers.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/multi_process.h"
#include "wmtp/comm/session.h"

namespace wmtp::test {
namespace {

TEST(RankNumbersMultirank, TheLargestOverTheRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  at::set_num_threads(1);
  const auto session =
      comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  const double rank = session->rank();
  run::RankNumbers numbers(session->reduce_group(), {{"rises", rank}, {"falls", -rank}});
  const training::Metrics expected{{"rises", 2}, {"falls", 0}};
  EXPECT_EQ(numbers.maximum(), expected);
  EXPECT_TRUE(run::RankNumbers().maximum().empty());
  session->finish();
}

}  // namespace
}  // namespace wmtp::test
