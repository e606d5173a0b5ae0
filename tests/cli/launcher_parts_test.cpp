#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>

#include "cli/launch_run.h"
#include "support/expect_error.h"
#include "wmtp/cli/launcher/line_prefixer.h"
#include "wmtp/cli/launcher/numa.h"
#include "wmtp/cli/launcher/parent_watch.h"
#include "wmtp/cli/launcher/rank_environment.h"
#include "wmtp/cli/launcher/restart_policy.h"

namespace wmtp::cli {
namespace {

using std::chrono::seconds;
using test::TempDir;
using ::testing::Contains;
using ::testing::Not;

TEST(RestartPolicy, RetriesOnlyWhatMayHealByItself) {
  for (const int code : {75, 81, 134, 137, 139}) EXPECT_TRUE(is_retried(code)) << code;
  for (const int code : {0, 1, 17, 65, 70, 74, 78, 80, 130, 143}) EXPECT_FALSE(is_retried(code));
}

TEST(RestartPolicy, PausesDoubleUpToThirtySeconds) {
  RestartPolicy policy(7);
  std::vector<long> pauses;
  while (const auto pause = policy.next_pause(75, std::nullopt)) pauses.push_back(pause->count());
  EXPECT_EQ(pauses, (std::vector<long>{1, 2, 4, 8, 16, 30, 30}));
}

TEST(RestartPolicy, ANewCommittedStepRefillsTheBudget) {
  RestartPolicy policy(2);
  EXPECT_EQ(policy.next_pause(137, 100), seconds(1));
  EXPECT_EQ(policy.next_pause(137, 100), seconds(2));
  EXPECT_EQ(policy.next_pause(137, 150), seconds(1));
  EXPECT_EQ(policy.next_pause(137, 150), seconds(2));
  EXPECT_EQ(policy.next_pause(137, 150), std::nullopt);
}

// Everything written to one console, as text.
class ConsoleFile {
 public:
  ConsoleFile() : fd_(::open((dir_ / "c").c_str(), O_RDWR | O_CREAT, 0600)), console_(fd_) {}
  ~ConsoleFile() { ::close(fd_); }
  Console& console() { return console_; }
  std::string text() {
    console_.pump();
    return test::slurp(dir_ / "c");
  }

 private:
  TempDir dir_;
  int fd_;
  Console console_;
};

LinePrefixer prefixer(ConsoleFile& file, int rank,
                      LinePrefixer::Show show = LinePrefixer::Show::everything) {
  LinePrefixer::Route route;
  route.source = rank;
  route.prefix = "[rank " + std::to_string(rank) + "] ";
  route.console = &file.console();
  route.show = show;
  return LinePrefixer(route);
}

TEST(LinePrefixer, PrefixesWholeLinesHoweverTheyArrive) {
  ConsoleFile file;
  LinePrefixer lines = prefixer(file, 3);
  const auto now = Clock::now();
  for (const char* piece : {"a", "b\nc\n", "", "\n", "d"}) lines.feed(piece, now);
  lines.finish();
  EXPECT_EQ(file.text(), "[rank 3] ab\n[rank 3] c\n[rank 3] \n[rank 3] d\n");
}

TEST(LinePrefixer, APartialLineShowsAfter200MsAndGoesOnWithoutASecondPrefix) {
  ConsoleFile file;
  LinePrefixer lines = prefixer(file, 0);
  const auto start = Clock::now();
  lines.feed("loading", start);
  lines.flush_partial(start + std::chrono::milliseconds(199));
  EXPECT_EQ(file.text(), "");
  lines.flush_partial(start + std::chrono::milliseconds(201));
  EXPECT_EQ(file.text(), "[rank 0] loading");
  lines.feed(" done\n", start + seconds(1));
  EXPECT_EQ(file.text(), "[rank 0] loading done\n");
}

TEST(LinePrefixer, AnotherRankEndsAnOpenLineFirst) {
  ConsoleFile file;
  LinePrefixer zero = prefixer(file, 0), one = prefixer(file, 1);
  const auto start = Clock::now();
  zero.feed("loading", start);
  zero.flush_partial(start + seconds(1));
  one.feed("whole\n", start + seconds(1));
  zero.feed(" done\n", start + seconds(2));
  EXPECT_EQ(file.text(), "[rank 0] loading\n[rank 1] whole\n[rank 0]  done\n");
}

TEST(LinePrefixer, OtherRanksShowProblemsOnly) {
  ConsoleFile file;
  LinePrefixer lines = prefixer(file, 1, LinePrefixer::Show::problems);
  lines.feed(
      "06:31:00 info [a] quiet\n06:31:00 debug [a] quiet\n{\"type\":\"log\"}\n"
      "06:31:00 \x1b[32minfo\x1b[m [a] quiet\n06:31:00 warning [a] loud\nAborted\n",
      Clock::now());
  EXPECT_EQ(file.text(), "[rank 1] 06:31:00 warning [a] loud\n[rank 1] Aborted\n");
}

TEST(LinePrefixer, OtherRanksShowLinesThatNameTheirRank) {
  for (const char* line : {"06:31:00 info [a] rank 1: asked for", "06:31:00 debug [a] rank 12: b",
                           "06:31:00 \x1b[32minfo\x1b[m [a] rank 1: asked for",
                           R"({"type":"log","ts":"t","module":"a","message":"b","rank":12})"})
    EXPECT_TRUE(names_its_rank(std::string(line) + "\n")) << line;
  for (const char* line :
       {"06:31:00 info [a] of rank 1: no", "06:31:00 info [a] rank x: no",
        "06:31:00 info [a] rank : no", "06:31:00 info [a] rank 1", "[a] rank 1: no",
        R"({"type":"log","ts":"t","module":"a","message":",\"rank\":12"})", R"({"type":"log"})"})
    EXPECT_FALSE(names_its_rank(std::string(line) + "\n")) << line;
  ConsoleFile file;
  LinePrefixer lines = prefixer(file, 1, LinePrefixer::Show::problems);
  lines.feed("06:31:00 info [a] rank 1: shown\n06:31:00 info [a] quiet\n", Clock::now());
  EXPECT_EQ(file.text(), "[rank 1] 06:31:00 info [a] rank 1: shown\n");
}

TEST(RankEnvironment, SetsSeatAndDropsWhatAnotherLauncherLeft) {
  const std::vector<std::string> base{"HOME=/h",          "RANK=9",         "TORCHELASTIC_RUN_ID=x",
                                      "MASTER_PORT=1",    "PET_NNODES=2",   "WMTP_RUN_TOKEN=old",
                                      "CUDA_DEVICES=a=b", "NCCL_DEBUG=WARN"};
  const RankEnv env{.local_rank = 1,
                    .local_world = 3,
                    .restart_count = 2,
                    .threads = 4,
                    .grace_s = 7,
                    .on_terminal = false,
                    .tee_all = true,
                    .run_token = "new",
                    .rendezvous = "file:///d"};
  const auto result = rank_environment(base, env, std::vector<std::string>{"NCCL_DEBUG=INFO"});
  for (const char* expected :
       {"HOME=/h", "CUDA_DEVICES=a=b", "NCCL_DEBUG=INFO", "RANK=1", "LOCAL_RANK=1", "WORLD_SIZE=3",
        "LOCAL_WORLD_SIZE=3", "GROUP_RANK=0", "WMTP_RUN_TOKEN=new", "WMTP_RENDEZVOUS=file:///d",
        "WMTP_RESTART_COUNT=2", "OMP_NUM_THREADS=4", "WMTP_LAUNCH_GRACE_S=7",
        "WMTP_CONSOLE_RANKS=all"})
    EXPECT_THAT(result, Contains(expected));
  for (const char* gone : {"RANK=9", "TORCHELASTIC_RUN_ID=x", "MASTER_PORT=1", "PET_NNODES=2",
                           "WMTP_RUN_TOKEN=old", "NCCL_DEBUG=WARN"})
    EXPECT_THAT(result, Not(Contains(gone)));
}

TEST(RankEnvironment, OnTheSecondOfTwoNodes) {
  const RankEnv env{.local_rank = 1,
                    .local_world = 3,
                    .node = 1,
                    .num_nodes = 2,
                    .run_token = "",
                    .rendezvous = "tcp://a:1"};
  const auto result = rank_environment(std::vector<std::string>{}, env, {});
  for (const char* expected : {"RANK=4", "LOCAL_RANK=1", "WORLD_SIZE=6", "LOCAL_WORLD_SIZE=3",
                               "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "WMTP_RENDEZVOUS=tcp://a:1"})
    EXPECT_THAT(result, Contains(expected));
  EXPECT_THAT(result, Not(Contains("WMTP_RUN_TOKEN="))) << "an empty one would be a short one";
}

TEST(RankEnvironment, AThreadCountOfTheUserStays) {
  RankEnv two_threads;
  two_threads.threads = 2;
  const auto result =
      rank_environment(std::vector<std::string>{"OMP_NUM_THREADS=7"}, two_threads, {});
  EXPECT_THAT(result, Contains("OMP_NUM_THREADS=7"));
  EXPECT_THAT(result, Not(Contains("OMP_NUM_THREADS=2")));
}

TEST(RankEnvironment, RefusesVariablesItSetsItself) {
  for (const char* text : {"RANK=1", "WMTP_RUN_TOKEN=a", "MASTER_ADDR=b"})
    EXPECT_WMTP_ERROR(check_extra_variable(text), ErrorKind::config, "the launcher sets it");
  for (const char* text : {"NAME", "=x", "A B=c", ""})
    EXPECT_WMTP_ERROR(check_extra_variable(text), ErrorKind::config, "not NAME=VALUE");
  check_extra_variable("NCCL_DEBUG=a=b");
}

TEST(RankEnvironment, CountsVisibleGpusAsTheDriverDoes) {
  EXPECT_EQ(num_visible_gpus(8, nullptr), 8);
  EXPECT_EQ(num_visible_gpus(8, ""), 0);
  EXPECT_EQ(num_visible_gpus(8, "-1"), 0);
  EXPECT_EQ(num_visible_gpus(8, "3,5"), 2);
  EXPECT_EQ(num_visible_gpus(8, "0,9,1"), 1);
  EXPECT_EQ(num_visible_gpus(8, "GPU-1234,MIG-77"), 2);
  EXPECT_EQ(num_visible_gpus(0, "0,1"), 0);
}

TEST(Numa, ReadsTheKernelsCoreLists) {
  const cpu_set_t cores = parse_core_list("0-3,8,10-11");
  EXPECT_EQ(CPU_COUNT(&cores), 7);
  for (const int core : {0, 3, 8, 10, 11}) EXPECT_TRUE(CPU_ISSET(core, &cores)) << core;
  const cpu_set_t none = parse_core_list("");
  EXPECT_EQ(CPU_COUNT(&none), 0);
}

TEST(Numa, NeighboursShareANode) {
  std::vector<std::size_t> nodes;
  for (std::size_t rank = 0; rank < 5; ++rank) nodes.push_back(node_of_rank(rank, 5, 2));
  EXPECT_EQ(nodes, (std::vector<std::size_t>{0, 0, 0, 1, 1}));
}

// What a rank does that ignores the kernel's SIGTERM: it leaves when the life line breaks.
TEST(ParentWatch, LeavesWith81WhenTheLifeLineBreaks) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t rank = ::fork();
  if (rank == 0) {
    ::signal(SIGTERM, SIG_IGN);
    ::close(ends[1]);
    ::setenv("WMTP_LIFE_LINE", std::to_string(ends[0]).c_str(), 1);
    ::setenv("WMTP_LAUNCH_GRACE_S", "0.1", 1);
    watch_launcher();
    while (true) ::pause();
  }
  ::close(ends[0]);
  int status = 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_EQ(::waitpid(rank, &status, WNOHANG), 0) << "left although the launcher lives";
  ::close(ends[1]);
  ASSERT_EQ(::waitpid(rank, &status, 0), rank);
  EXPECT_EQ(WEXITSTATUS(status), 81);
}

}  // namespace
}  // namespace wmtp::cli
