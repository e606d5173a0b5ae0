#include "support/multi_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "support/temp_dir.h"

extern char** environ;

namespace wmtp::test {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::string> environment_for(const RankLaunch& launch, int rank,
                                         const std::string& folder) {
  EnvTable table;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    table[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  const std::string ranks = std::to_string(launch.ranks);
  const EnvTable ours{{"WMTP_TEST_WORKER", folder},
                      {"RANK", std::to_string(rank)},
                      {"WORLD_SIZE", ranks},
                      {"LOCAL_RANK", std::to_string(rank)},
                      {"LOCAL_WORLD_SIZE", ranks},
                      {"WMTP_RENDEZVOUS", "file://" + folder + "/meet"},
                      {"WMTP_RUN_TOKEN", "0123456789abcdef0123456789abcdef"},
                      {"OMP_NUM_THREADS", "1"},
                      {"MKL_NUM_THREADS", "1"}};
  for (const EnvTable* layer : {&ours, &launch.env})
    for (const auto& [name, value] : *layer) table[name] = value;
  if (const auto own = launch.rank_env.find(rank); own != launch.rank_env.end())
    for (const auto& [name, value] : own->second) table[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : table)
    if (!value.empty()) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& lines) {
  std::vector<char*> result;
  for (std::string& line : lines) result.push_back(line.data());
  result.push_back(nullptr);
  return result;
}

pid_t start_rank(const RankLaunch& launch, int rank, const std::string& folder) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::vector<std::string> arguments{
      std::filesystem::read_symlink("/proc/self/exe").string(),
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name(),
      "--gtest_brief=1", "--gtest_also_run_disabled_tests", "--gtest_color=no"};
  std::vector<std::string> environment = environment_for(launch, rank, folder);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  const std::string log = folder + "/rank" + std::to_string(rank) + ".log";
  const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) {
    ::close(fd);
    if (pid < 0) throw std::runtime_error("fork failed");
    return pid;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphans, however the launcher ends
  if (::getppid() != parent) ::_exit(127);
  ::dup2(fd, 1);
  ::dup2(fd, 2);
  ::execve(argv[0], argv.data(), envp.data());
  ::_exit(127);
}

// Collects the ranks that have ended; true when all have.
bool reap(const std::vector<pid_t>& pids, std::vector<RankResult>& results,
          Clock::time_point start) {
  bool all = true;
  for (std::size_t r = 0; r < pids.size(); ++r) {
    if (results[r].code >= 0) continue;
    int status = 0;
    if (::waitpid(pids[r], &status, WNOHANG) != pids[r]) {
      all = false;
      continue;
    }
    results[r].code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    results[r].seconds = since(start);
  }
  return all;
}

void kill_rest(const std::vector<pid_t>& pids, std::vector<RankResult>& results) {
  for (std::size_t r = 0; r < pids.size(); ++r)
    if (results[r].code < 0) {
      results[r].timed_out = true;
      ::kill(pids[r], SIGKILL);
    }
}

void wait_for_all(const RankLaunch& launch, const std::vector<pid_t>& pids,
                  std::vector<RankResult>& results, Clock::time_point start) {
  Clock::time_point first_end = Clock::time_point::max();
  while (!reap(pids, results, start)) {
    for (const RankResult& result : results)
      if (result.code >= 0 && first_end == Clock::time_point::max()) first_end = Clock::now();
    const bool straggling =
        first_end != Clock::time_point::max() && since(first_end) > launch.straggler_s;
    if (straggling || since(start) > launch.timeout_s) kill_rest(pids, results);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

bool is_worker() {
  return ::getenv("WMTP_TEST_WORKER") != nullptr;
}
int worker_rank() {
  return std::stoi(worker_env("RANK"));
}
std::string worker_folder() {
  return worker_env("WMTP_TEST_WORKER");
}

std::string worker_env(const std::string& name) {
  const char* value = ::getenv(name.c_str());
  return value ? value : "";
}

std::vector<RankResult> launch_ranks(const RankLaunch& launch) {
  const TempDir folder;
  std::vector<pid_t> pids;
  std::vector<RankResult> results(static_cast<std::size_t>(launch.ranks));
  const auto start = Clock::now();
  for (int r = 0; r < launch.ranks; ++r)
    pids.push_back(start_rank(launch, r, folder.path().string()));
  std::exception_ptr problem;
  try {
    if (launch.meanwhile) launch.meanwhile(pids, folder.path().string());
  } catch (...) {
    problem = std::current_exception();
    kill_rest(pids, results);
  }
  wait_for_all(launch, pids, results, start);
  for (int r = 0; r < launch.ranks; ++r)
    results[static_cast<std::size_t>(r)].output =
        slurp(folder / ("rank" + std::to_string(r) + ".log"));
  if (problem) std::rethrow_exception(problem);
  return results;
}

void expect_success(const std::vector<RankResult>& results) {
  for (std::size_t r = 0; r < results.size(); ++r)
    EXPECT_EQ(results[r].code, 0) << "rank " << r << (results[r].timed_out ? " (timed out)" : "")
                                  << ":\n"
                                  << results[r].output;
}

bool wait_for_file(const std::string& path, double timeout_s) {
  const auto start = Clock::now();
  while (since(start) < timeout_s) {
    if (std::filesystem::exists(path)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace wmtp::test
