#include "wmtp/tracking/mlflow/mlflow_sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "fake_mlflow.h"
#include "support/temp_dir.h"
#include "wmtp/core/time.h"
#include "wmtp/tracking/mlflow/spool/spool_lock.h"
#include "wmtp/tracking/mlflow/spool/spool_reader.h"
#include "wmtp/tracking/mlflow/sync.h"

namespace wmtp::tracking::mlflow {
namespace {

using std::chrono::milliseconds;
using test::FakeMlflow;
using test::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr milliseconds kLong{20'000};

MlflowOptions options_in(const TempDir& dir, FakeMlflow* server) {
  MlflowOptions options;
  options.experiment = "e";
  options.run_name = "r";
  options.spool_dir = dir / "spool";
  options.run_uid = "uid";
  options.sync_command = "`wmtp report`";
  if (server) options.connect = [server](const std::atomic<bool>&) { return server->connect(); };
  return options;
}

SyncOptions sync_in(const TempDir& dir, FakeMlflow& server) {
  SyncOptions options;
  options.spool_dir = dir / "spool";
  options.connect = [&server](const std::string&, const std::atomic<bool>&) {
    return server.connect();
  };
  return options;
}

void refuse_connections(FakeMlflow& server) {
  server.before = [](const std::string&) {
    throw http::Failure(http::FailureKind::connect, "nobody listens");
  };
}

TEST(MlflowSink, SendsWhatARunTellsAndItsEnd) {
  TempDir dir;
  FakeMlflow server;
  MlflowOptions options = options_in(dir, &server);
  options.params = {{"lr", "0.1"}};
  options.tags = {{"stage", "baseline"}};
  options.inputs = {{"datasets", OrderedJson::array({1})}};
  test::write_file(dir / "config.yaml", "a: 1\n");
  options.artifacts = {{"config.yaml", dir / "config.yaml"}};
  MlflowSink sink(options);
  sink.point({1, 10, {{"train/loss", 2}, {"train/lr", 3}}});
  test::write_file(dir / "report.html", "<p>");
  sink.artifact("report.html", dir / "report.html");
  sink.end({RunStatus::finished, 0, "completed"}, kLong);
  const auto& run = server.runs.at("run1");
  EXPECT_EQ(run.params.at("lr"), "0.1");
  EXPECT_EQ(run.tags.at("stage"), "baseline");
  EXPECT_THAT(server.inputs, ElementsAre(R"({"datasets":[1]})"));
  EXPECT_THAT(server.uploads, ElementsAre("config.yaml=a: 1\n", "report.html=<p>"));
  EXPECT_EQ(server.history.at({"train/loss", 1})[0].timestamp_ms, 10'000);
  EXPECT_EQ(server.statuses.at("run1"), RunStatus::finished);
  EXPECT_EQ(sink.counters().appended, 2);
  EXPECT_EQ(sink.counters().left, 0);
  EXPECT_EQ(sink.run_id(), "run1");
  // What tells how far the run came stays, the rest is not needed any more.
  EXPECT_FALSE(std::filesystem::exists(dir / "spool" / "uid" / "00000001.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(dir / "spool" / "uid" / "run.json"));
}

TEST(MlflowSink, StepsComputedAgainKeepTheirFirstValue) {
  TempDir dir;
  FakeMlflow server;
  {
    MlflowSink sink(options_in(dir, &server));
    for (int step = 1; step <= 10; ++step) sink.point({step, 1.0 * step, {{"loss", step}}});
  }
  MlflowOptions options = options_in(dir, &server);
  options.from_step = 5;
  MlflowSink sink(options);
  for (int step = 6; step <= 12; ++step) sink.point({step, 100.0 + step, {{"loss", -step}}});
  sink.end({}, kLong);
  EXPECT_EQ(server.runs.size(), 1);
  ASSERT_EQ(server.history.size(), 12);
  for (const auto& [at, values] : server.history) {
    ASSERT_EQ(values.size(), 1);
    EXPECT_EQ(values[0].value, at.second <= 10 ? at.second : -at.second);
  }
  EXPECT_EQ(sink.counters().repeated, 5);
  EXPECT_EQ(server.runs.at("run1").tags.at("wmtp.resumed_from"), "5");
}

TEST(MlflowSink, AFinishedRunThatIsMadeLongerSendsNoStepTwice) {
  TempDir dir;
  FakeMlflow server;
  for (const int last : {10, 15}) {
    MlflowSink sink(options_in(dir, &server));
    for (int step = 8; step <= last; ++step) sink.point({step, 1.0 * last, {{"loss", step}}});
    sink.end({}, kLong);
    EXPECT_EQ(server.statuses.at("run1"), RunStatus::finished);
  }
  EXPECT_EQ(server.history.size(), 8);
  for (const auto& [at, values] : server.history) EXPECT_EQ(values.size(), 1);
}

TEST(MlflowSink, AServerThatIsGoneEndsTheWaitAndSyncSendsTheRest) {
  TempDir dir;
  FakeMlflow server;
  refuse_connections(server);
  const auto begun = Clock::now();
  {
    MlflowSink sink(options_in(dir, &server));
    sink.point({1, 1, {{"loss", 1}}});
    sink.end({RunStatus::failed, 70, "broken"}, milliseconds(60'000));
    EXPECT_EQ(sink.counters().left, 1);
  }
  EXPECT_LT(seconds_since(begun), 30);
  server.before = nullptr;
  const auto runs = sync(sync_in(dir, server));
  ASSERT_EQ(runs.size(), 1);
  EXPECT_EQ(runs[0].sent, 1);
  EXPECT_EQ(runs[0].left, 0);
  EXPECT_EQ(runs[0].problem, "");
  EXPECT_EQ(server.statuses.at("run1"), RunStatus::failed);
  EXPECT_EQ(sync(sync_in(dir, server))[0].sent, 0);  // nothing twice
  EXPECT_EQ(server.num_calls("update_run"), 1);
}

TEST(MlflowSink, ManyLongTagsAreAllKept) {
  TempDir dir;
  FakeMlflow server;
  MlflowOptions options = options_in(dir, &server);
  for (int i = 0; i < 120; ++i)
    options.tags.emplace_back("t" + std::to_string(i), std::string(9000, '\x01'));
  MlflowSink sink(options);
  sink.end({}, kLong);
  EXPECT_EQ(server.runs.at("run1").tags.size(), 120 + 3);  // wmtp.run_uid, .exit_code, .exit_reason
}

TEST(MlflowSink, AServerThatHangsIsGivenUpAtTheLimit) {
  TempDir dir;
  FakeMlflow server;
  MlflowOptions options = options_in(dir, &server);
  options.connect = [&](const std::atomic<bool>& cancelled) {
    server.before = [&cancelled](const std::string&) {
      while (!cancelled) std::this_thread::sleep_for(milliseconds(5));
      throw http::Failure(http::FailureKind::cancelled, "given up");
    };
    return server.connect();
  };
  MlflowSink sink(options);
  sink.point({1, 1, {{"loss", 1}}});
  const auto begun = Clock::now();
  sink.end({RunStatus::killed, 81, "preempted"}, milliseconds(200));
  EXPECT_GE(seconds_since(begun), 0.2);
  EXPECT_LT(seconds_since(begun), 5);
  EXPECT_THAT(test::slurp(dir / "spool" / "uid" / "end.json"), HasSubstr("KILLED"));
  sink.end({}, milliseconds(200));  // the first one counts
  EXPECT_THAT(test::slurp(dir / "spool" / "uid" / "end.json"), HasSubstr("preempted"));
}

TEST(MlflowSink, WithoutAServerAllStaysInTheSpool) {
  TempDir dir;
  {
    MlflowSink sink(options_in(dir, nullptr));
    sink.point({1, 1, {{"loss", 1}}});
    sink.end({}, kLong);
    EXPECT_EQ(sink.counters().left, 1);
  }
  FakeMlflow server;
  EXPECT_EQ(sync(sync_in(dir, server))[0].sent, 1);
  EXPECT_EQ(server.statuses.at("run1"), RunStatus::finished);
}

TEST(MlflowSink, ARunThatGoesOnSaysSo) {
  TempDir dir;
  FakeMlflow server;
  {
    MlflowSink sink(options_in(dir, &server));
    sink.point({1, 1, {{"loss", 1}}});
    sink.end({RunStatus::failed, 70, "broken"}, kLong);
  }
  EXPECT_EQ(server.statuses.at("run1"), RunStatus::failed);
  MlflowSink sink(options_in(dir, &server));
  EXPECT_FALSE(std::filesystem::exists(dir / "spool" / "uid" / "end.json"));
  for (int i = 0; i < 1000 && server.num_calls("update_run") < 2; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  const std::scoped_lock lock(server.mutex);
  EXPECT_EQ(server.statuses.at("run1"), RunStatus::running);
}

TEST(MlflowSink, ASpoolThatCannotBeUsedCostsOnlyNumbers) {
  TempDir dir;
  FakeMlflow server;
  const auto lock = SpoolLock::take(dir / "spool" / "uid");
  MlflowSink locked(options_in(dir, &server));
  MlflowOptions bad = options_in(dir, &server);
  bad.run_uid = "../uid";
  MlflowSink nameless(bad);
  for (MlflowSink* sink : {&locked, &nameless}) {
    sink->point({1, 1, {{"loss", 1}}});
    sink->flush();
    sink->artifact("a", dir / "none");
    sink->end({}, kLong);
    EXPECT_EQ(sink->counters().dropped, 1);
  }
  EXPECT_TRUE(server.calls.empty());
}

TEST(MlflowSync, LeavesALiveRunAlone) {
  TempDir dir;
  FakeMlflow server;
  MlflowSink sink(options_in(dir, nullptr));
  sink.point({1, 1, {{"loss", 1}}});
  const auto runs = sync(sync_in(dir, server));
  ASSERT_EQ(runs.size(), 1);
  EXPECT_TRUE(runs[0].is_live);
  EXPECT_THAT(server.calls, IsEmpty());
}

TEST(MlflowSync, TellsWhatIsWrongWithOneRunAndSendsTheOthers) {
  TempDir dir;
  FakeMlflow server;
  for (const char* uid : {"a", "b"}) {
    MlflowOptions options = options_in(dir, nullptr);
    options.run_uid = uid;
    MlflowSink(options).point({1, 1, {{"loss", 1}}});
  }
  test::write_file(dir / "spool" / "a" / "run.json", "[");
  const auto runs = sync(sync_in(dir, server));
  ASSERT_EQ(runs.size(), 2);
  EXPECT_THAT(runs[0].problem, HasSubstr("run.json"));
  EXPECT_EQ(runs[0].left, 1);
  EXPECT_EQ(runs[1].left, 0);
  EXPECT_EQ(server.statuses.at("run1"), RunStatus::killed);  // it did not say how it ended
}

// A trainer that is killed at any moment: what it had flushed is there, and once.
TEST(MlflowKills, LoseNothingThatWasFlushed) {
  TempDir dir;
  FakeMlflow server;
  int promised = 0;
  for (int round = 0; round < 8; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      MlflowSink sink(options_in(dir, nullptr));
      for (int step = promised + 1;; ++step) {
        sink.point({step, wall_time_s(), {{"loss", step}}});
        if (step % 7 != 0) continue;
        sink.flush();
        if (::write(pipe_ends[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
    }
    ::close(pipe_ends[1]);
    int step = 0;
    for (int i = 0; i < 1 + 3 * round && ::read(pipe_ends[0], &step, sizeof step) == sizeof step;
         ++i)
      promised = step;
    ::kill(child, SIGKILL);
    while (::read(pipe_ends[0], &step, sizeof step) == sizeof step) promised = step;
    ::close(pipe_ends[0]);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  }
  EXPECT_EQ(sync(sync_in(dir, server))[0].left, 0);
  for (int step = 1; step <= promised; ++step)
    ASSERT_EQ(server.history[(std::pair<std::string, std::int64_t>{"loss", step})].size(), 1)
        << step;
  for (const auto& [at, values] : server.history) ASSERT_EQ(values.size(), 1);
  EXPECT_EQ(server.statuses.at("run1"), RunStatus::killed);
}

}  // namespace
}  // namespace wmtp::tracking::mlflow
