#include "cli/launch_run.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <sstream>

#include "wmtp/cli/launcher/supervisor.h"
#include "wmtp/core/error.h"

namespace wmtp::test {

bool process_exists(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  return std::getline(stat, text) && text.find(") Z ") == std::string::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool wait_for_text(const std::filesystem::path& file, const std::string& text) {
  for (int i = 0; i < 500; ++i) {
    if (std::filesystem::exists(file) && slurp(file).find(text) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

LaunchRun::LaunchRun(std::string script, cli::LaunchOptions options,
                     const std::function<void()>& prepare) {
  options.program = "/bin/sh";
  options.arguments = {"sh", "-c", "echo $$ >> $DIR/pids; " + script};
  options.extra_environment.push_back("DIR=" + dir_.path().string());
  pid_ = ::fork();
  if (pid_ != 0) return;
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  ::dup2(::open((dir_ / "out").c_str(), flags, 0600), STDOUT_FILENO);
  ::dup2(::open((dir_ / "err").c_str(), flags, 0600), STDERR_FILENO);
  ::setenv("TMPDIR", dir_.path().c_str(), 1);  // a killed launcher cannot clear its folder
  if (prepare) prepare();
  try {
    ::_exit(cli::supervise(options));
  } catch (const Error& error) {
    ::dprintf(STDERR_FILENO, "%s\n", error.what());
    ::_exit(static_cast<int>(exit_code(error.kind())));
  }
}

LaunchRun::~LaunchRun() {
  for (const pid_t rank : ranks_left()) ::kill(-rank, SIGKILL);
  if (waited_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int LaunchRun::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  waited_ = true;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int LaunchRun::num_starts() const {
  return static_cast<int>(lines_of(slurp(dir_ / "pids")).size());
}

std::vector<pid_t> LaunchRun::ranks_left() const {
  std::vector<pid_t> left;
  if (!std::filesystem::exists(dir_ / "pids")) return left;
  for (const std::string& line : lines_of(slurp(dir_ / "pids")))
    if (const pid_t pid = std::stoi(line); process_exists(pid)) left.push_back(pid);
  return left;
}

}  // namespace wmtp::test
