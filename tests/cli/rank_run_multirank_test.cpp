// One exit code for all ranks, however long the failing one needs to end.
#include "wmtp/cli/rank_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "support/multi_process.h"

namespace wmtp::test {
namespace {

// What a rank holds that takes long to let go: a save under way.
struct SlowToEnd {
  ~SlowToEnd() { std::this_thread::sleep_for(std::chrono::seconds(12)); }
};

int body(comm::ProcessGroupSession& group) {
  group.connect();
  const SlowToEnd held;
  return cli::broadcasting_failure(group, [&group]() -> int {
    group.gather_group().barrier("before");
    group.watchdog().enter("step", std::chrono::seconds(4));
    if (group.rank() == 1) throw Error(ErrorKind::data, "test", "a bad sample");
    group.gather_group().barrier("step");
    return 0;
  });
}

TEST(RankRunMultirank, AFailureIsToldBeforeAnythingIsLetGo) {
  if (!is_worker()) {
    // Rank 0 would call it a hang after 4 s; rank 1 sees it leave, and must not call that a death.
    for (const RankResult& result : launch_ranks({.ranks = 2})) {
      EXPECT_EQ(result.code, 65) << result.output;
      EXPECT_NE(result.output.find("a bad sample"), std::string::npos) << result.output;
    }
    return;
  }
  cli::RankRun run;
  run.launch = comm::discover(comm::process_environment());
  ::_exit(cli::run_as_rank({}, std::move(run), body));
}

}  // namespace
}  // namespace wmtp::test
