#include "wmtp/core/failpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/core/time.h"

#ifdef WMTP_FAILPOINTS
namespace wmtp::failpoint {
namespace {

class Failpoint : public testing::Test {
 protected:
  ~Failpoint() override { configure({}); }
  static void arm(const std::string& spec, int rank = 0) {
    configure({.spec = spec, .rank = rank, .log_path = {}});
  }
};

TEST_F(Failpoint, NothingArmedNothingHappens) {
  for (const Point& point : points()) EXPECT_EQ(pass(point.name), Action::none) << point.name;
}

TEST_F(Failpoint, FiresOnceAtTheNthPassage) {
  arm("save.shard.fsync:nth=3=eio");
  EXPECT_EQ(pass("save.shard.fsync"), Action::none);
  EXPECT_EQ(pass("save.shard.open"), Action::none);
  EXPECT_EQ(pass("save.shard.fsync"), Action::none);
  EXPECT_EQ(pass("save.shard.fsync"), Action::eio);
  EXPECT_EQ(pass("save.shard.fsync"), Action::none);
}

TEST_F(Failpoint, FiresFromTheNthPassageOn) {
  arm("step.loss:nth=2+=damage");
  EXPECT_EQ(pass("step.loss"), Action::none);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pass("step.loss"), Action::damage);
}

TEST_F(Failpoint, OnlyOnTheNamedRank) {
  arm("save.rename.before:rank=1:nth=1+=skip", 0);
  EXPECT_EQ(pass("save.rename.before"), Action::none);
  arm("save.rename.before:nth=1+:rank=1=skip", 1);
  EXPECT_EQ(pass("save.rename.before"), Action::skip);
}

TEST_F(Failpoint, SeveralRulesCountApart) {
  arm("save.shard.half=short;save.shard.half:nth=2=enospc;;comm.hello=skip;");
  EXPECT_EQ(pass("save.shard.half"), Action::short_write);
  EXPECT_EQ(pass("save.shard.half"), Action::enospc);
  EXPECT_EQ(pass("comm.hello"), Action::skip);
}

TEST_F(Failpoint, ActionsTellTheErrorNumber) {
  EXPECT_EQ(error_number(Action::eio), EIO);
  EXPECT_EQ(error_number(Action::short_write), EIO);
  EXPECT_EQ(error_number(Action::enospc), ENOSPC);
  EXPECT_EQ(error_number(Action::skip), 0);
  EXPECT_EQ(error_number(Action::none), 0);
}

TEST_F(Failpoint, SleepsAsLongAsAsked) {
  arm("step.begin=sleep:50");
  const auto start = Clock::now();
  EXPECT_EQ(pass("step.begin"), Action::none);
  EXPECT_GE(seconds_since(start), 0.05);
}

TEST_F(Failpoint, LogsEachHitBeforeItActs) {
  test::TempDir dir;
  const auto child = ::fork();
  if (child == 0) {
    configure({.spec = "step.begin:nth=2=sleep:1;step.begin:nth=3=kill",
               .rank = 4,
               .log_path = dir / "hits"});
    while (true) pass("step.begin");
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(test::slurp(dir / "hits"), "step.begin 4 2 sleep\nstep.begin 4 3 kill\n");
}

TEST_F(Failpoint, StopStopsTheProcessUntilContinued) {
  const auto child = ::fork();
  if (child == 0) {
    arm("step.begin=stop");
    pass("step.begin");
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  ::kill(child, SIGCONT);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

TEST_F(Failpoint, BadSpecsAreConfigErrors) {
  for (const char* unknown : {"save.shard.fsnc=eio", "nowhere=kill", "=kill"})
    EXPECT_WMTP_ERROR(arm(unknown), ErrorKind::config, "cache.rename.before cache.write.half");
  EXPECT_WMTP_ERROR(arm("save.shard.fsnc=eio"), ErrorKind::config,
                    "did you mean save.shard.fsync?");
  EXPECT_WMTP_ERROR(arm("step.begin=eio"), ErrorKind::config, "step.begin cannot do 'eio'");
  EXPECT_WMTP_ERROR(arm("step.begin"), ErrorKind::config, "names no action");
  EXPECT_WMTP_ERROR(arm("step.begin=explode"), ErrorKind::config, "'explode'");
  EXPECT_WMTP_ERROR(arm("step.begin=none"), ErrorKind::config, "is no action");
  EXPECT_WMTP_ERROR(arm("step.begin:rank=x=kill"), ErrorKind::config, "'x'");
  EXPECT_WMTP_ERROR(arm("step.begin:rank=-1=kill"), ErrorKind::config, "'-1'");
  EXPECT_WMTP_ERROR(arm("step.begin:nth=0=kill"), ErrorKind::config, "'0'");
  EXPECT_WMTP_ERROR(arm("step.begin:nth=99999999999999999999=kill"), ErrorKind::config,
                    "no whole number");
  EXPECT_WMTP_ERROR(arm("step.begin:node=1=kill"), ErrorKind::config, "'node'");
  EXPECT_WMTP_ERROR(arm("step.begin:nth"), ErrorKind::config, "has no value");
  EXPECT_WMTP_ERROR(arm("step.begin=kill:5"), ErrorKind::config, "takes no number");
  EXPECT_WMTP_ERROR(arm("step.begin=sleep:"), ErrorKind::config, "no whole number");
}

TEST_F(Failpoint, WhatAPointCannotDoIsRefusedWithAllNames) {
  int num_refused = 0;
  for (const Point& point : points())
    for (const Action action : {Action::kill, Action::stop, Action::eio, Action::enospc,
                                Action::short_write, Action::sleep, Action::skip, Action::damage}) {
      const std::string spec = fmt::format("{}={}", point.name, name_of(action));
      if (point.actions & (1 << static_cast<int>(action))) {
        EXPECT_NO_THROW(arm(spec)) << spec;
        continue;
      }
      EXPECT_WMTP_ERROR(arm(spec), ErrorKind::config,
                        fmt::format("{} cannot do '{}'", point.name, name_of(action)));
      EXPECT_WMTP_ERROR(arm(spec), ErrorKind::config, "cache.rename.before cache.write.half");
      ++num_refused;
    }
  EXPECT_GT(num_refused, 0);
}

TEST_F(Failpoint, ABadSpecLeavesTheOldOneArmed) {
  arm("comm.hello:nth=1+=skip");
  EXPECT_WMTP_ERROR(arm("step.begin=explode"), ErrorKind::config, "explode");
  EXPECT_EQ(pass("comm.hello"), Action::skip);
}

TEST_F(Failpoint, AMistypedPassageIsABug) {
  EXPECT_WMTP_ERROR(pass("step.begun"), ErrorKind::internal, "step.begun");
}

}  // namespace
}  // namespace wmtp::failpoint
#endif
