#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <map>
#include <set>

#include "cli/launch_run.h"
#include "wmtp/core/time.h"

namespace wmtp::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::LaunchRun;
using ::testing::HasSubstr;

LaunchOptions ranks(int count, int max_restarts = 0) {
  LaunchOptions options;
  options.num_ranks = count;
  options.max_restarts = max_restarts;
  options.peer_grace = milliseconds(500);
  return options;
}

TEST(Supervisor, EveryRankKnowsItsSeat) {
  LaunchRun run(
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $WMTP_RESTART_COUNT "
      "${#WMTP_RUN_TOKEN} $(stat -c %a ${WMTP_RENDEZVOUS#file://}) > $DIR/seat$RANK; "
      "for fd in 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do [ -e /proc/$$/fd/$fd ] && "
      "echo $fd >> $DIR/fds$RANK; done; exit 0",
      ranks(3));
  EXPECT_EQ(run.wait(), 0) << run.err();
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_EQ(test::slurp(run.file("seat" + rank)), rank + "/3 " + rank + "/3 0 32 700\n");
    // Beside the standard streams only the life line came from the launcher.
    EXPECT_EQ(test::slurp(run.file("fds" + rank)), "3\n");
  }
}

TEST(Supervisor, HeavyOutputKeepsEveryLineWhole) {
  test::TempDir logs;
  LaunchOptions options = ranks(4);
  options.tee_all = true;
  options.log_dir = logs / "l";
  const auto start = Clock::now();
  LaunchRun run(
      "awk -v r=$RANK 'BEGIN { for (i = 0; i < 60000; i++) "
      "printf \"r%d %d 0123456789012345678901234567890123456789 end\\n\", r, i }'",
      options);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const double elapsed_s = seconds_since(start);
  const std::string text = run.out();
  std::map<int, int> next;
  for (const std::string& line : test::lines_of(text)) {
    int prefix = -1, rank = -1, number = -1;
    char tail[64] = {};
    ASSERT_EQ(std::sscanf(line.c_str(), "[rank %d] r%d %d %40s end", &prefix, &rank, &number, tail),
              4)
        << line;
    ASSERT_EQ(prefix, rank) << line;
    ASSERT_TRUE(line.ends_with(" end")) << line;
    ASSERT_EQ(number, next[rank]++) << line;
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(next[rank], 60000);
    const auto copy =
        test::lines_of(test::slurp(logs / ("l/rank_0000" + std::to_string(rank) + ".log")));
    EXPECT_EQ(copy.size(), 60000U);
    EXPECT_EQ(copy.back(),
              "r" + std::to_string(rank) + " 59999 0123456789012345678901234567890123456789 end");
  }
  RecordProperty("mb_per_s", std::to_string(static_cast<double>(text.size()) / 1e6 / elapsed_s));
}

TEST(Supervisor, OthersShowProblemsAndLogsHoldEverything) {
  test::TempDir logs;
  LaunchOptions options = ranks(2);
  options.log_dir = logs.path();
  LaunchRun run(
      "echo result$RANK; echo '06:00:00 info [x] calm' >&2; echo \"06:00:00 warning [x] w$RANK\" "
      ">&2",
      options);
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.out(), "[rank 0] result0\n");
  EXPECT_THAT(run.err(), HasSubstr("[rank 0] 06:00:00 info [x] calm\n"));
  EXPECT_THAT(run.err(), HasSubstr("[rank 1] 06:00:00 warning [x] w1\n"));
  EXPECT_EQ(run.err().find("[rank 1] 06:00:00 info"), std::string::npos);
  const std::string copy = test::slurp(logs / "rank_00001.log");
  for (const char* part : {"result1\n", "calm\n", "w1\n"}) EXPECT_THAT(copy, HasSubstr(part));
}

TEST(Supervisor, FinalCodesAreNeverRestarted) {
  for (const int code : {17, 65, 70, 74, 78, 80, 1}) {
    LaunchRun run("exit " + std::to_string(code), ranks(2, 3));
    EXPECT_EQ(run.wait(), code);
    EXPECT_EQ(run.num_starts(), 2) << code;
  }
}

TEST(Supervisor, RetriedCodesAreRestartedWithinTheBudget) {
  const std::map<int, std::string> ways{{75, "exit 75"},
                                        {81, "exit 81"},
                                        {134, "kill -ABRT $$"},
                                        {137, "kill -KILL $$"},
                                        {139, "kill -SEGV $$"}};
  std::map<int, std::unique_ptr<LaunchRun>> runs;
  for (const auto& [code, way] : ways)
    runs[code] = std::make_unique<LaunchRun>("ulimit -c 0; " + way, ranks(1, 1));
  for (const auto& [code, run] : runs) {
    EXPECT_EQ(run->wait(), code);
    EXPECT_EQ(run->num_starts(), 2) << code;
    EXPECT_THAT(run->err(), HasSubstr("giving up: 1 of 1 restarts"));
  }
}

TEST(Supervisor, ARestartThatWorksIsSuccess) {
  LaunchRun run("[ $WMTP_RESTART_COUNT = 1 ] || exit 75; echo again", ranks(2, 3));
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.num_starts(), 4);
  EXPECT_EQ(run.out(), "[rank 0] again\n");
}

TEST(Supervisor, ProgressRefillsTheBudget) {
  LaunchOptions options = ranks(1, 1);
  auto steps = std::make_shared<std::int64_t>(0);
  options.newest_committed_step = [steps] { return std::min<std::int64_t>(++*steps, 3); };
  LaunchRun run("exit 75", options);
  EXPECT_EQ(run.wait(), 75);
  EXPECT_EQ(run.num_starts(), 4);  // steps 1, 2, 3 are progress; the fourth failure is at 3 again
}

TEST(Supervisor, PeersOfADeadRankGetTimeAndThenSigkill) {
  LaunchRun run(
      "[ $RANK = 1 ] && exit 65; trap 'echo term >> $DIR/term' TERM; while :; do sleep 0.05; done",
      ranks(3));
  const auto start = Clock::now();
  EXPECT_EQ(run.wait(), 65);
  EXPECT_GE(seconds_since(start), 0.5);
  EXPECT_LT(seconds_since(start), 3);
  EXPECT_TRUE(run.ranks_left().empty());
  EXPECT_FALSE(std::filesystem::exists(run.file("term"))) << "a SIGTERM was sent";
  EXPECT_THAT(run.err(), HasSubstr("rank 1 ended with code 65"));
}

TEST(Supervisor, TheCauseIsNamedNotThePeerThatFollowed) {
  LaunchRun run("[ $RANK = 2 ] && { sleep 0.3; kill -KILL $$; }; sleep 0.35; exit 75", ranks(3));
  EXPECT_EQ(run.wait(), 137);
}

class ForwardedSignal : public ::testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(ForwardedSignal, ReachesEveryRankOnce) {
  const auto [number, name] = GetParam();
  const std::string trap = std::string("trap 'echo got >> $DIR/got$RANK; exit 80' ") + name + "; ";
  LaunchRun run(trap + "echo up >> $DIR/up; while :; do sleep 0.05; done", ranks(2, 3));
  ASSERT_TRUE(test::wait_for_text(run.file("up"), "up\nup\n"));
  run.signal(number);
  EXPECT_EQ(run.wait(), 80);
  EXPECT_EQ(run.num_starts(), 2);
  for (const char* file : {"got0", "got1"}) EXPECT_EQ(test::slurp(run.file(file)), "got\n");
}

INSTANTIATE_TEST_SUITE_P(Supervisor, ForwardedSignal,
                         ::testing::Values(std::pair(SIGTERM, "TERM"), std::pair(SIGINT, "INT"),
                                           std::pair(SIGHUP, "HUP"), std::pair(SIGUSR1, "USR1")),
                         [](const auto& info) { return std::string(info.param.second); });

// A rank that has no handler yet dies by what was passed on: our own stop, and nothing to restart.
TEST(Supervisor, RanksThatDieByTheStopAreNoCrash) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    LaunchRun run("echo up >> $DIR/up; while :; do sleep 0.05; done", ranks(2, 3));
    ASSERT_TRUE(test::wait_for_text(run.file("up"), "up\nup\n"));
    run.signal(number);
    EXPECT_EQ(run.wait(), 81) << run.err();
    EXPECT_EQ(run.num_starts(), 2);
    EXPECT_EQ(run.err().find("error"), std::string::npos) << run.err();
  }
}

TEST(Supervisor, ARankThatDiesByAStopSignalOfOthersIsACrash) {
  LaunchRun run("[ $RANK = 0 ] && kill -TERM $$; sleep 0.2", ranks(2, 3));
  EXPECT_EQ(run.wait(), 143);
}

// What the launcher ignores for itself is nothing that foreign programs expect.
TEST(Supervisor, RanksGetTheUsualSignalsBack) {
  LaunchRun run(
      "while read -r name bits; do [ $name = SigIgn: ] && echo $bits; done < "
      "/proc/self/status > $DIR/ignored; exit 0",
      ranks(1), [] {
        ::signal(SIGPIPE, SIG_IGN);
        ::signal(SIGXFSZ, SIG_IGN);
      });
  EXPECT_EQ(run.wait(), 0) << run.err();
  const auto ignored = std::stoull(test::slurp(run.file("ignored")), nullptr, 16);
  for (const int number : {SIGPIPE, SIGXFSZ}) EXPECT_EQ(ignored >> (number - 1) & 1, 0U) << number;
}

TEST(Supervisor, SaveNowIsNotAStop) {
  LaunchOptions options = ranks(2);
  options.grace = seconds(0);
  LaunchRun run(
      "trap 'echo saved; touch $DIR/saved$RANK' USR2; echo up >> $DIR/up; "
      "while [ ! -e $DIR/saved$RANK ]; do sleep 0.05; done; sleep 0.3; echo done >> $DIR/done",
      options);
  ASSERT_TRUE(test::wait_for_text(run.file("up"), "up\nup\n"));
  run.signal(SIGUSR2);
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(test::slurp(run.file("done")), "done\ndone\n");
}

TEST(Supervisor, RanksThatIgnoreAStopAreKilledAfterTheGrace) {
  LaunchOptions options = ranks(2, 3);
  options.grace = seconds(1);
  LaunchRun run("trap '' TERM; echo up >> $DIR/up; while :; do sleep 0.05; done", options);
  ASSERT_TRUE(test::wait_for_text(run.file("up"), "up\nup\n"));
  run.signal(SIGTERM);
  const auto start = Clock::now();
  EXPECT_EQ(run.wait(), 137);
  EXPECT_NEAR(seconds_since(start), 1.0, 0.8);
  EXPECT_TRUE(run.ranks_left().empty());
  EXPECT_EQ(run.num_starts(), 2) << "restarted after a stop";
}

TEST(Supervisor, ASecondInterruptCutsTheGraceToFiveSeconds) {
  LaunchRun run("trap '' INT; echo up >> $DIR/up; while :; do sleep 0.05; done", ranks(1));
  ASSERT_TRUE(test::wait_for_text(run.file("up"), "up\n"));
  run.signal(SIGINT);
  std::this_thread::sleep_for(milliseconds(100));
  run.signal(SIGINT);
  const auto start = Clock::now();
  EXPECT_EQ(run.wait(), 137);
  EXPECT_NEAR(seconds_since(start), 5.0, 1.0);
}

TEST(Supervisor, AStopDuringThePauseEndsIt) {
  LaunchRun run("exit 75", ranks(1, 3));
  ASSERT_TRUE(test::wait_for_text(run.file("err"), "starting all ranks again"));
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 81);
  EXPECT_EQ(run.num_starts(), 1);
}

TEST(Supervisor, KillingTheLauncherLeavesNoProcess) {
  LaunchRun run("echo up >> $DIR/up; while :; do sleep 0.05; done", ranks(3));
  ASSERT_TRUE(test::wait_for_text(run.file("up"), "up\nup\nup\n"));
  ASSERT_EQ(run.ranks_left().size(), 3U);
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait(), 137);
  for (int i = 0; i < 100 && !run.ranks_left().empty(); ++i)
    std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(run.ranks_left().empty());
}

TEST(Supervisor, AReaderThatLeftDoesNotEndTheJob) {
  LaunchRun run("for i in 1 2 3; do echo line; sleep 0.05; done; echo end > $DIR/end; exit 65",
                ranks(1), [] {
                  int ends[2];
                  if (::pipe(ends) != 0) ::_exit(1);
                  ::close(ends[0]);
                  ::dup2(ends[1], STDOUT_FILENO);
                });
  EXPECT_EQ(run.wait(), 65);
  EXPECT_EQ(test::slurp(run.file("end")), "end\n");
}

// A pager that nobody scrolls: the ranks wait, the launcher still listens.
TEST(Supervisor, AStuckReaderDoesNotDeafenTheLauncher) {
  LaunchRun run("yes & wait", ranks(2), [] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(1);
    ::dup2(ends[1], STDOUT_FILENO);
  });
  ASSERT_TRUE(test::wait_for_text(run.file("pids"), "\n"));
  std::this_thread::sleep_for(milliseconds(500));
  run.signal(SIGTERM);
  const auto start = Clock::now();
  EXPECT_EQ(run.wait(), 81);
  EXPECT_LT(seconds_since(start), 5);
}

TEST(Supervisor, NoDescriptorLeftNamesTheLimitAndEndsTheRanksStarted) {
  LaunchRun run("sleep 30", ranks(20), [] {
    const rlimit few{24, 24};
    ::setrlimit(RLIMIT_NOFILE, &few);
  });
  EXPECT_EQ(run.wait(), 78);
  EXPECT_THAT(run.err(), HasSubstr("RLIMIT_NOFILE = 24"));
  EXPECT_TRUE(run.ranks_left().empty());
}

}  // namespace
}  // namespace wmtp::cli
