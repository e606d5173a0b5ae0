// Whose a run's lock is when the job that holds it begins again somewhere else.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/checkpoint/start_log.h"
#include "wmtp/core/json.h"
#include "wmtp/core/time.h"

namespace wmtp::checkpoint {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kShortLimit{600};

LockHolder of_job(const std::string& host, const std::string& job, RestartCounts restarts) {
  return {host, 1234, "run-of-" + host, job, restarts};
}

void let_heartbeat_be(std::chrono::seconds age, const std::filesystem::path& lock) {
  std::filesystem::last_write_time(lock, std::filesystem::file_time_type::clock::now() - age);
}

TEST(LockOwner, ALaterStartOfTheJobBreaksALockWhoseHeartbeatHasStopped) {
  const test::TempDir folder;
  const RunLock elsewhere(folder.path(), "m", of_job("node7", "77", {}));
  let_heartbeat_be(std::chrono::seconds(11), folder / "m.lock");
  const auto begun = Clock::now();
  const RunLock later(folder.path(), "m", of_job("node8", "77", {1, 0}));
  EXPECT_LT(seconds_since(begun), 5) << "an old heartbeat is not waited for";
  EXPECT_EQ(test::slurp(folder / "m.lock"), "node8 1234 run-of-node8 1.0 77\n");
}

TEST(LockOwner, AnotherJobAndTheSameStartAreRefusedNamingHostPidRunAndJob) {
  const test::TempDir folder;
  const RunLock elsewhere(folder.path(), "m", of_job("node7", "77", {1, 2}));
  let_heartbeat_be(std::chrono::seconds(3600), folder / "m.lock");
  for (const LockHolder& other :
       {of_job("node8", "78", {5, 0}), of_job("node8", "77", {1, 2}), of_job("node8", "77", {0, 9}),
        of_job("node8", "", {5, 0}), this_process("run-y")})
    EXPECT_WMTP_ERROR(RunLock(folder.path(), "m", other), ErrorKind::config,
                      "run run-of-node7 (host node7, pid 1234, job 77)");
}

TEST(LockOwner, AHolderThatBeatsOnIsNotTakenOver) {
  const test::TempDir folder;
  const RunLock elsewhere(folder.path(), "m", of_job("node7", "77", {}));
  const LockHeartbeat beats(elsewhere, milliseconds(100));
  const LockHolder later = of_job("node8", "77", {1, 0});
  EXPECT_WMTP_ERROR(RunLock(folder.path(), "m", later, false, kShortLimit), ErrorKind::config,
                    "its heartbeat goes on");
  EXPECT_TRUE(test::slurp(folder / "m.lock").starts_with("node7 "));
}

TEST(LockOwner, AHeartbeatThatHasJustStoppedIsWaitedFor) {
  const test::TempDir folder;
  test::write_file(folder / "m.lock", "node7 1234 run-of-node7 0.1 77\n");
  const auto begun = Clock::now();
  const RunLock again(folder.path(), "m", of_job("node8", "77", {0, 1}), false, kShortLimit);
  EXPECT_GT(seconds_since(begun), 0.5);
  EXPECT_TRUE(test::slurp(folder / "m.lock").starts_with("node8 "));
}

TEST(LockOwner, AnEarlierStartOfTheJobDoesNotTakeOver) {
  const test::TempDir folder;
  test::write_file(folder / "m.lock", "node7 1234 run-of-node7 1.0 77\n");
  let_heartbeat_be(std::chrono::seconds(11), folder / "m.lock");
  EXPECT_WMTP_ERROR(RunLock(folder.path(), "m", of_job("node8", "77", {0, 3})), ErrorKind::config,
                    "--force-unlock");
}

TEST(LockOwner, AnIdOfAnyTextStaysInItsLine) {
  const test::TempDir folder;
  const std::string strange = "a b\n" + std::string(300, 'x');
  const RunLock lock(folder.path(), "m", of_job("node7", strange, {}));
  const std::string line = test::slurp(folder / "m.lock");
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_LT(line.size(), 300u);
  EXPECT_TRUE(is_later_start(of_job("node8", strange, {1, 0}), *named_in_lock(folder.path(), "m")));
}

TEST(StartLog, ALineForEveryStart) {
  const test::TempDir folder;
  append_start(folder.path(), {"77", 0, "slurm", 4, std::nullopt});
  append_start(folder.path(), {"", 2, "launch", 2, 40});
  std::istringstream lines(test::slurp(folder / "restarts.jsonl"));
  std::vector<Json> found;
  for (std::string line; std::getline(lines, line);) found.push_back(Json::parse(line));
  ASSERT_EQ(found.size(), 2u);
  for (Json& line : found) {
    EXPECT_TRUE(line.at("time").get<std::string>().ends_with("Z"));
    line.erase("time");
  }
  EXPECT_EQ(found[0], Json::parse(R"({"job": "77", "restart_count": 0, "source": "slurm",
                                      "world": 4, "resumed_step": null})"));
  EXPECT_EQ(found[1], Json::parse(R"({"job": null, "restart_count": 2, "source": "launch",
                                      "world": 2, "resumed_step": 40})"));
  append_start(folder / "missing", {});  // a warning, no more
}

}  // namespace
}  // namespace wmtp::checkpoint
