// Real multi-process tests: the test binary starts itself once per rank (fork + exec: an OpenMP
// pool does not survive a bare fork), each with a filter for the running test. Use:
//   TEST(FooMultirank, Sums) {
//     if (!test::is_worker()) return test::expect_success(test::launch_ranks({.ranks = 3}));
//     ... body of one rank; RANK, WORLD_SIZE, WMTP_RENDEZVOUS, WMTP_RUN_TOKEN are set ...
//   }
#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace wmtp::test {

using EnvTable = std::map<std::string, std::string>;

struct RankResult {
  int code = -1;           // exit code; 128 + signal when killed
  std::string output;      // both streams
  double seconds = 0;      // from the start of all
  bool timed_out = false;  // killed by the launcher
};

struct RankLaunch {
  int ranks = 1;
  double timeout_s = 60;
  EnvTable env = {};                      // for all ranks
  std::map<int, EnvTable> rank_env = {};  // beats env; an empty value unsets
  // Runs in the launcher while the ranks run, e.g. to stop or kill one; `folder` is
  // worker_folder().
  std::function<void(const std::vector<pid_t>& ranks, const std::string& folder)> meanwhile = {};
  // Ranks still alive when all others have ended get this long, then SIGKILL (a stopped rank
  // stays).
  double straggler_s = 20;
};

bool is_worker();
int worker_rank();
std::string worker_env(const std::string& name);  // "" where not set
// A folder all ranks of a launch share; given up after the test.
std::string worker_folder();

// BLOCKS. Starts the running test once per rank; every child has ended when it returns.
std::vector<RankResult> launch_ranks(const RankLaunch& launch);
void expect_success(const std::vector<RankResult>& results);
// BLOCKS until the file is there; false after `timeout_s`.
bool wait_for_file(const std::string& path, double timeout_s);

}  // namespace wmtp::test
