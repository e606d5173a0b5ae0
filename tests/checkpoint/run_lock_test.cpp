#include "wmtp/checkpoint/run_lock.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "checkpoint/life.h"
#include "support/expect_error.h"
#include "support/soak.h"
#include "support/temp_dir.h"

namespace wmtp::checkpoint {
namespace {

using life::Child;
using life::Life;

// A process that takes the lock, says so with one byte, and holds it until the pipe closes.
struct Holder {
  Holder(const std::filesystem::path& folder, const std::string& run_id, int start_fd,
         const std::string& failpoints = "", bool force = false) {
    std::array<int, 2> said{}, hold{};
    if (::pipe2(said.data(), O_CLOEXEC) != 0 || ::pipe2(hold.data(), O_CLOEXEC) != 0) std::abort();
    pid = ::fork();
    if (pid == 0) {
      ::close(hold[1]);
      failpoint::configure({.spec = failpoints, .rank = 0, .log_path = {}});
      char go = 0;
      [[maybe_unused]] ssize_t ignored = ::read(start_fd, &go, 1);  // all start at once
      std::string answer;
      try {
        const RunLock lock(folder, "m", this_process(run_id), force);
        ignored = ::write(said[1], "+", 1);
        ignored = ::read(hold[0], &go, 1);
        ::_exit(0);
      } catch (const Error& error) {
        answer = error.what();
        ignored = ::write(said[1], answer.data(), answer.size());
        ::_exit(static_cast<int>(exit_code(error.kind())));
      }
    }
    ::close(said[1]);
    ::close(hold[0]);
    said_fd = said[0];
    hold_fd = hold[1];
  }
  std::string said() const {
    std::array<char, 1000> buffer{};
    const ssize_t got = ::read(said_fd, buffer.data(), buffer.size());
    return {buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  }
  int end() const {
    ::close(hold_fd);
    ::close(said_fd);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid = -1;
  int said_fd = -1, hold_fd = -1;
};

TEST(RunLock, OfTwoRunsThatStartAtOnceOneIsRefusedByName) {
  for (int round = 0; round < 20 * test::soak_factor(); ++round) {
    const test::TempDir folder;
    std::array<int, 2> start{};
    ASSERT_EQ(::pipe2(start.data(), O_CLOEXEC), 0);
    const std::array<Holder, 2> runs{Holder(folder.path(), "run-a", start[0]),
                                     Holder(folder.path(), "run-b", start[0])};
    ASSERT_EQ(::write(start[1], "go", 2), 2);
    const std::array<std::string, 2> said{runs[0].said(), runs[1].said()};
    const std::size_t winner = said[0] == "+" ? 0 : 1;
    EXPECT_EQ(said[winner], "+");
    const std::string& refusal = said[1 - winner];
    EXPECT_NE(refusal.find("uses these checkpoints"), std::string::npos) << refusal;
    const std::string who = fmt::format("run {} (host {}, pid {})", winner ? "run-b" : "run-a",
                                        this_process("").host, runs[winner].pid);
    EXPECT_NE(refusal.find(who), std::string::npos) << refusal;
    EXPECT_EQ(runs[1 - winner].end(), 78);
    EXPECT_EQ(runs[winner].end(), 0);
    ::close(start[0]);
    ::close(start[1]);
  }
}

// Each finds the same stale lock and may break it; none may break the one that another has taken
// meanwhile.
TEST(RunLock, OfManyForcedStartsOneWins) {
  constexpr std::size_t kStarts = 12;
  for (int round = 0; round < 5 * test::soak_factor(); ++round) {
    const test::TempDir folder;
    const RunLock stale(folder.path(), "m", {"node7", 1234, "run-x"});
    std::array<int, 2> start{};
    ASSERT_EQ(::pipe2(start.data(), O_CLOEXEC), 0);
    std::vector<Holder> runs;
    for (std::size_t i = 0; i < kStarts; ++i)
      // Time for the others between the decision to break a lock and the deed.
      runs.emplace_back(folder.path(), fmt::format("run-{}", i), start[0], "lock.break=sleep:30",
                        /*force=*/true);
    ASSERT_EQ(::write(start[1], std::string(kStarts, 'g').data(), kStarts),
              static_cast<ssize_t>(kStarts));
    std::vector<std::string> winners;
    for (std::size_t i = 0; i < kStarts; ++i) {
      const std::string said = runs[i].said();
      if (said == "+")
        winners.push_back(fmt::format("run-{}\n", i));
      else
        EXPECT_NE(said.find("it is alive"), std::string::npos) << said;
    }
    ASSERT_EQ(winners.size(), 1u) << "in round " << round;
    EXPECT_TRUE(test::slurp(folder / "m.lock").ends_with(winners[0]));
    for (const Holder& run : runs) run.end();
    ::close(start[0]);
    ::close(start[1]);
  }
}

TEST(RunLock, TheHolderIsNamed) {
  const test::TempDir folder;
  const RunLock lock(folder.path(), "m", {"node7", 1234, "run-x"});
  EXPECT_WMTP_ERROR(RunLock(folder.path(), "m", this_process("run-y")), ErrorKind::config,
                    "run run-x (host node7, pid 1234)");
  const RunLock other(folder.path(), "another", this_process("run-y"));  // another model
}

TEST(RunLock, TheNameIsReadWithoutTouchingTheFolder) {
  test::TempDir folder;
  EXPECT_FALSE(named_in_lock(folder.path(), "m"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const RunLock lock(folder / "made", "m", {"node7", 1234, "run-x"});
  const auto holder = named_in_lock(folder / "made", "m");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->host + " " + std::to_string(holder->pid) + " " + holder->run_id,
            "node7 1234 run-x");
}

TEST(RunLock, AKilledHolderOfThisHostLeavesNothingBehind) {
  const test::TempDir folder;
  std::array<int, 2> start{};
  ASSERT_EQ(::pipe2(start.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::write(start[1], "g", 1), 1);
  const Holder dead(folder.path(), "run-a", start[0]);
  EXPECT_EQ(dead.said(), "+");
  ::kill(dead.pid, SIGKILL);
  EXPECT_EQ(dead.end(), 128 + SIGKILL);
  const RunLock lock(folder.path(), "m", this_process("run-b"));
  EXPECT_NE(test::slurp(folder / "m.lock").find("run-b"), std::string::npos);
}

TEST(RunLock, AStaleLockOfAnotherHostNeedsForce) {
  const test::TempDir folder;
  test::write_file(folder / "m.lock", "node7 1234 run-x\n");
  EXPECT_WMTP_ERROR(RunLock(folder.path(), "m", this_process("run-y")), ErrorKind::config,
                    "--force-unlock");
  std::filesystem::last_write_time(  // its last heartbeat
      folder / "m.lock", std::filesystem::file_time_type::clock::now() - std::chrono::seconds(11));
  { const RunLock same_run(folder.path(), "m", this_process("run-x")); }  // requeued elsewhere
  test::write_file(folder / "m.lock", "node7 1234 run-x\n");
  { const RunLock forced(folder.path(), "m", this_process("run-y"), true); }
  const RunLock after(folder.path(), "m", this_process("run-z"));  // let go in peace
}

TEST(RunLock, ForceBreaksADeadHostsLockButNotALivingRuns) {
  const test::TempDir folder;
  {
    const RunLock held_elsewhere(folder.path(), "m", {"node7", 1234, "run-x"});
    const RunLock forced(folder.path(), "m", this_process("run-y"), true);
    EXPECT_NE(test::slurp(folder / "m.lock").find("run-y"), std::string::npos);
  }
  const RunLock alive(folder.path(), "m", this_process("run-z"));
  EXPECT_WMTP_ERROR(RunLock(folder.path(), "m", this_process("run-y"), true), ErrorKind::config,
                    "it is alive");
}

TEST(RunLock, TwoTrainingsInOneFolder) {
  const test::TempDir folder;
  const RunLock lock(folder.path(), tiny::kModel, this_process("first"));
  Child second({.save_dir = folder.path(), .run_id = "second"});
  EXPECT_EQ(second.wait(), life::kRefused);
  EXPECT_TRUE(second.acknowledged().empty());
}

// The file-size limit of the process: writes fail with EFBIG, every save fails, nothing is harmed.
TEST(DiskLimits, FileSizeLimit) {
  const test::TempDir folder;
  {
    Child healthy({.save_dir = folder.path(), .num_steps = 2});
    EXPECT_EQ(healthy.wait(), 0);
  }
  for (const rlim_t limit : {rlim_t{1}, rlim_t{300}, rlim_t{700}, rlim_t{1500}}) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const struct rlimit small { limit, limit };
      ::setrlimit(RLIMIT_FSIZE, &small);
      storage::LocalFileSystem files;
      const auto outcome = tiny::save_with(files, folder.path(), 9, 1);
      ::_exit(outcome.errors[0].find("File too large") != std::string::npos ? 0 : 1);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << limit;
    EXPECT_EQ(life::broken_promise(folder.path(), 2), "");
  }
  Child after({.save_dir = folder.path(), .num_steps = 2});
  EXPECT_EQ(after.wait(), 0);
  EXPECT_EQ(life::broken_promise(folder.path(), 4), "");
}

constexpr uid_t kNobody = 65534;

// Root may write anywhere, so the child gives that up first.
int save_to_a_read_only_folder(const std::filesystem::path& folder) {
  if (::geteuid() == 0 && ::setuid(kNobody) != 0) return 10;
  storage::LocalFileSystem files;
  if (!tiny::save_with(files, folder, 1, 1).all_saved()) return 11;
  ::chmod(folder.c_str(), 0500);
  const auto outcome = tiny::save_with(files, folder, 2, 1);
  const std::string fault = tiny::fault_of(files, folder / "tiny-1steps", 1);
  LocalExchange vote;
  const auto choice =
      choose_checkpoint({.files = files, .vote = vote, .save_dir = folder, .model = tiny::kModel});
  ::chmod(folder.c_str(), 0700);
  if (outcome.errors[0].find("Permission denied") == std::string::npos) return 12;
  return fault.empty() && choice && choice->step == 1 ? 0 : 13;
}

TEST(DiskLimits, AReadOnlyFolderFailsTheSaveAndCanStillBeResumedFrom) {
  const test::TempDir folder;
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(folder.path().c_str(), kNobody, kNobody), 0);
  }
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(save_to_a_read_only_folder(folder.path()));
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace wmtp::checkpoint
