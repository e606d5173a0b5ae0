#include "wmtp/cli/launcher/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "wmtp/core/resource_limits.h"

namespace wmtp::cli {
namespace {

UniqueFd raised(UniqueFd fd) {
  constexpr int kFirstFree = 10;
  const int high = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstFree);
  return UniqueFd(high);
}

[[noreturn]] void throw_no_descriptor() {
  throw limit_error(Resource::descriptors,
                    fmt::format("no file descriptor left for a pipe: {}", std::strerror(errno)));
}

std::vector<char*> c_strings(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void reset_signals(const sigset_t& mask) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ, SIGCHLD})
    ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

struct ChildEnds {
  int in, out, err, parent_pipe;
};

// Runs between fork and exec: async-signal-safe calls only.
[[noreturn]] void become_rank(const ChildSpec& spec, pid_t launcher, const ChildEnds& ends,
                              char* const* argv, char* const* envp) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != launcher) ::_exit(81);
  ::setpgid(0, 0);
  ::dup2(ends.in, STDIN_FILENO);
  ::dup2(ends.out, STDOUT_FILENO);
  ::dup2(ends.err, STDERR_FILENO);
  ::dup2(ends.parent_pipe, kLifeLineFd);
  ::close_range(kLifeLineFd + 1, ~0U, 0);
  if (spec.bind) bind_to(*spec.bind);
  reset_signals(spec.signal_mask);
  ::execve(spec.program.c_str(), argv, envp);
  constexpr char kText[] = "wmtp: [launch] cannot execute the rank's program\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(70);
}

}  // namespace

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_no_descriptor();
  Pipe pipe{raised(UniqueFd(ends[0])), raised(UniqueFd(ends[1]))};
  if (!pipe.read || !pipe.write) throw_no_descriptor();
  return pipe;
}

ChildProcess::ChildProcess(const ChildSpec& spec) {
  Pipe out_pipe = make_pipe();
  Pipe err_pipe = make_pipe();
  const UniqueFd null = raised(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  if (!null) throw_no_descriptor();
  const std::vector<char*> argv = c_strings(spec.arguments);
  const std::vector<char*> envp = c_strings(spec.environment);
  const ChildEnds ends{null.get(), out_pipe.write.get(), err_pipe.write.get(),
                       spec.parent_pipe->read.get()};
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    throw limit_error(Resource::threads,
                      fmt::format("cannot start another process: {}", std::strerror(errno)));
  if (pid == 0) become_rank(spec, launcher, ends, argv.data(), envp.data());
  ::setpgid(pid, pid);  // here too: kill_group may come before the child has run
  pid_ = pid;
  running_ = true;
  out = std::move(out_pipe.read);
  err = std::move(err_pipe.read);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : out(std::move(other.out)), err(std::move(other.err)), pid_(other.pid_) {
  running_ = std::exchange(other.running_, false);
}

ChildProcess::~ChildProcess() {
  if (!running_) return;
  kill_group();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::send(int signal) const {
  if (running_) ::kill(pid_, signal);
}

void ChildProcess::kill_group() const {
  if (running_) ::kill(-pid_, SIGKILL);
}

std::optional<int> ChildProcess::poll_exit() {
  if (!running_) return std::nullopt;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_)
    return std::nullopt;
  kill_group();  // what it left behind; until it is reaped its number is nobody else's
  ::waitpid(pid_, nullptr, 0);
  running_ = false;
  return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

}  // namespace wmtp::cli
