// Hangs and deaths of real processes.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "support/expect_error.h"
#include "support/multi_process.h"
#include "support/temp_dir.h"
#include "wmtp/comm/session.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/json.h"
#include "wmtp/core/time.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::test {
namespace {

using comm::ProcessGroupSession;
using std::chrono::milliseconds;

// Long beside what a busy machine keeps a process waiting: a rank that has had no processor for as
// long as a limit is one that hangs, and is rightly named.
constexpr milliseconds kStepLimit{5000}, kNoLimit{600'000};
constexpr milliseconds kBeat{600};  // after 2.5 of them without one a rank counts as silent
constexpr milliseconds kDeadAfter{8000};
// From the moment at which survivors know to their end.
constexpr double kLeavingS = 5;

double seconds_of(milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

void leave_like_main(const comm::Failure& failure) {
  fmt::print(stderr, "leaving: {}\n", failure.message);
  ::_exit(failure.code);
}

// Endless steps with a collective each, under the watchdog, ended the way cli/main ends.
void run_steps(milliseconds step_limit,
               const std::function<void(int rank, int step)>& in_step = {}) {
  comm::SessionOptions options;
  options.rendezvous.timeout = std::chrono::seconds(30);
  options.run_dir = worker_env("TEST_RUN_DIR");
  options.leave = leave_like_main;
  options.beat = kBeat;
  options.dead_after = kDeadAfter;
  auto session = ProcessGroupSession::start(comm::discover(comm::process_environment()), options);
  try {
    session->connect();
    for (int step = 0;; ++step) {
      session->watchdog().set_step(step);
      session->watchdog().enter("step", step_limit);
      if (in_step) in_step(session->rank(), step);
      session->reduce_group().all_reduce(at::zeros({1000}), "gradients").wait();
      std::this_thread::sleep_for(milliseconds(5));
      if (step == 20)
        write_file(worker_folder() + "/running" + std::to_string(session->rank()), "");
    }
  } catch (const Error& error) {
    leave_like_main(session->agree_on_failure(error));
  }
}

struct Trial {
  std::vector<RankResult> results;
  std::vector<double> seconds_after;  // from the signal to each rank's end
  Json hang;                          // null where no file was written
};

Trial disturb(RankLaunch launch, int victim, int signal) {
  const TempDir run_dir;
  launch.env["TEST_RUN_DIR"] = run_dir.path().string();
  const auto start = Clock::now();
  double at = 0;
  launch.meanwhile = [&](const std::vector<pid_t>& pids, const std::string& folder) {
    for (int r = 0; r < launch.ranks; ++r)
      ASSERT_TRUE(wait_for_file(folder + "/running" + std::to_string(r), 40));
    at = seconds_since(start);
    ::kill(pids[static_cast<std::size_t>(victim)], signal);
  };
  Trial trial{launch_ranks(launch), {}, {}};
  for (const RankResult& result : trial.results) trial.seconds_after.push_back(result.seconds - at);
  for (const auto& entry : std::filesystem::directory_iterator(run_dir.path()))
    if (entry.path().filename().string().starts_with("hang-")) trial.hang = read_json(entry.path());
  return trial;
}

void expect_survivors_left(const Trial& trial, int victim, double within_s) {
  for (std::size_t r = 0; r < trial.results.size(); ++r) {
    if (static_cast<int>(r) == victim) continue;
    EXPECT_EQ(trial.results[r].code, 75) << "rank " << r << ":\n" << trial.results[r].output;
    EXPECT_LT(trial.seconds_after[r], within_s) << "rank " << r;
  }
}

TEST(WatchdogMultirank, KilledRankTakesTheOthersAlong) {
  if (is_worker()) return run_steps(kNoLimit);
  const Trial trial = disturb({.ranks = 4}, 2, SIGKILL);
  EXPECT_EQ(trial.results[2].code, 137);
  expect_survivors_left(trial, 2, kLeavingS);  // a closed connection tells, long before a beat does
}

TEST(WatchdogMultirank, KilledRankZeroWithItsStore) {
  if (is_worker()) return run_steps(kNoLimit);
  const Trial trial =
      disturb({.ranks = 3,
               .env = {{"WMTP_RENDEZVOUS",
                        fmt::format("tcp://127.0.0.1:{}", 20'000 + ::getpid() % 10'000)}}},
              0, SIGKILL);
  EXPECT_EQ(trial.results[0].code, 137);
  expect_survivors_left(trial, 0, kLeavingS);
}

// The step limit speaks first.
TEST(WatchdogMultirank, StoppedRankIsNamedWithinTheLimit) {
  if (is_worker()) return run_steps(kStepLimit);
  const Trial trial = disturb({.ranks = 3, .straggler_s = 1}, 1, SIGSTOP);
  expect_survivors_left(trial, 1, seconds_of(kStepLimit) + kLeavingS);
  ASSERT_TRUE(trial.hang.is_object());
  EXPECT_EQ(trial.hang["behind"], Json::array({1}));
  EXPECT_THAT(trial.hang["cause"].get<std::string>(), testing::HasSubstr("section 'step'"));
  EXPECT_EQ(trial.hang["ranks"][0]["last_collectives"]["reduce"]["what"],
            "all_reduce 1000 fp32 gradients");
  EXPECT_THAT(trial.results[0].output, testing::HasSubstr("no sign of life from rank 1"));
}

// Long limits (first steps, NCCL): the missing beats speak first.
TEST(WatchdogMultirank, StoppedRankIsNamedByItsMissingBeats) {
  if (is_worker()) return run_steps(kNoLimit);
  const Trial trial = disturb({.ranks = 2, .straggler_s = 1}, 1, SIGSTOP);
  expect_survivors_left(trial, 1, seconds_of(kDeadAfter) + kLeavingS);
  ASSERT_TRUE(trial.hang.is_object());
  EXPECT_EQ(trial.hang["behind"], Json::array({1}));
}

// Rank 0 serves the store and stops: store calls never return, the limit still holds.
TEST(WatchdogMultirank, StoppedStoreIsNoTrap) {
  if (is_worker()) return run_steps(kStepLimit);
  const Trial trial =
      disturb({.ranks = 3,
               .env = {{"WMTP_RENDEZVOUS",
                        fmt::format("tcp://127.0.0.1:{}", 20'000 + (::getpid() + 1) % 10'000)}},
               .straggler_s = 1},
              0, SIGSTOP);
  expect_survivors_left(trial, 0, seconds_of(kStepLimit) + kLeavingS);
}

// A rank that waits for something else than its peers (its loader): it is behind, though it beats.
TEST(WatchdogMultirank, LateRankIsNamed) {
  if (is_worker())
    return run_steps(kStepLimit, [](int rank, int step) {
      if (rank == 2 && step == 30) std::this_thread::sleep_for(std::chrono::seconds(60));
    });
  const TempDir run_dir;
  const auto results =
      launch_ranks({.ranks = 3, .env = {{"TEST_RUN_DIR", run_dir.path().string()}}});
  for (const RankResult& result : results) EXPECT_EQ(result.code, 75) << result.output;
  const Json hang = read_json(run_dir / "hang-30.json");
  EXPECT_EQ(hang["behind"], Json::array({2}));
  EXPECT_THAT(results[0].output, testing::HasSubstr("rank 2 behind"));
  EXPECT_THAT(results[2].output, testing::HasSubstr("nanosleep")) << "the stack of the late rank";
}

// Rank 1 leaves one collective out (failpoint), so its peer waits in the last one for ever.
TEST(WatchdogMultirank, SkippedCollectiveIsNamed) {
  if (is_worker()) {
    failpoint::configure({.spec = "comm.collective.before:rank=1:nth=30=damage",
                          .rank = worker_rank(),
                          .log_path = {}});
    return run_steps(kStepLimit, [](int, int step) {
      if (step == 40) std::this_thread::sleep_for(std::chrono::seconds(60));
    });
  }
  const TempDir run_dir;
  const auto results =
      launch_ranks({.ranks = 2, .env = {{"TEST_RUN_DIR", run_dir.path().string()}}});
  for (const RankResult& result : results) EXPECT_EQ(result.code, 75) << result.output;
  const Json hang = read_json(run_dir / "hang-39.json");
  EXPECT_EQ(hang["behind"], Json::array({1}));
  EXPECT_FALSE(hang["ranks"][0]["last_collectives"]["reduce"]["finished"].get<bool>());
}

// One code for all: the first failure's.
TEST(WatchdogMultirank, EveryRankLeavesWithTheFirstCode) {
  if (is_worker())
    return run_steps(kNoLimit, [](int rank, int step) {
      if (rank == 1 && step == 10) throw Error(ErrorKind::data, "data", "sample 7 is damaged");
    });
  for (const RankResult& result : launch_ranks({.ranks = 3})) {
    EXPECT_EQ(result.code, 65) << result.output;
    EXPECT_THAT(result.output, testing::HasSubstr("sample 7 is damaged"));
  }
}

TEST(WatchdogMultirank, OrderlyEndIsNoDeath) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  comm::SessionOptions options;
  options.leave = leave_like_main;
  options.beat = milliseconds(200);
  options.dead_after = milliseconds(3000);
  auto session = ProcessGroupSession::start(comm::discover(comm::process_environment()), options);
  session->connect();
  EXPECT_TRUE(session->agree({.must_agree = {{"build", "abc"}}}).empty());
  session->finish();
  // Longer than a rank is missed in silence: one that has said goodbye is not.
  if (session->rank() == 2) std::this_thread::sleep_for(milliseconds(4500));
}

}  // namespace
}  // namespace wmtp::test
