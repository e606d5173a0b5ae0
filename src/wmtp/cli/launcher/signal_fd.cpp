#include "wmtp/cli/launcher/signal_fd.h"

#include <sys/signalfd.h>

#include "wmtp/cli/stop_signals.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {

SignalFd::SignalFd() {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGUSR2, SIGCHLD}) ::sigaddset(&watched, signal);
  for (const int signal : stop_signals()) ::sigaddset(&watched, signal);
  ::signal(SIGPIPE, SIG_IGN);  // a reader that left shows as EPIPE
  ::sigprocmask(SIG_BLOCK, &watched, &previous_);
  fd_.reset(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) {
    ::sigprocmask(SIG_SETMASK, &previous_, nullptr);
    throw Error(ErrorKind::config, "launch", "no file descriptor left to receive signals",
                "raise RLIMIT_NOFILE with `ulimit -n`");
  }
}

SignalFd::~SignalFd() {
  ::sigprocmask(SIG_SETMASK, &previous_, nullptr);
}

std::vector<int> SignalFd::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

}  // namespace wmtp::cli
