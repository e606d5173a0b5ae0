#include "wmtp/cli/launcher/parent_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "wmtp/cli/launcher/shared_folder.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

bool is_pipe(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode);
}

void wait_for_end(int fd) {
  char byte = 0;
  while (true) {
    const ssize_t got = ::read(fd, &byte, 1);
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

// While this rank lives its meeting place is in use, even if the launcher is gone.
UniqueFd hold_rendezvous_folder() {
  constexpr std::string_view kScheme = "file://";
  const char* place = std::getenv("WMTP_RENDEZVOUS");
  if (!place || !std::string_view(place).starts_with(kScheme)) return {};
  return hold_folder(place + kScheme.size());
}

}  // namespace

void watch_launcher() {
  const char* fd_text = std::getenv("WMTP_LIFE_LINE");
  if (!fd_text) return;
  const int fd = std::atoi(fd_text);
  if (fd <= STDERR_FILENO || !is_pipe(fd)) return;  // a stale variable, not our pipe
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_NAME, "wmtp");  // it was executed as /proc/self/exe
  const char* grace_text = std::getenv("WMTP_LAUNCH_GRACE_S");
  const double grace_s = grace_text ? std::atof(grace_text) : 0;

  // Signals belong to the main thread.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([fd, grace_s, place = hold_rendezvous_folder()] {
    wait_for_end(fd);
    std::this_thread::sleep_for(std::chrono::duration<double>(grace_s));
    ::_exit(static_cast<int>(ExitCode::preempted_unsaved));
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace wmtp::cli
