#include "wmtp/comm/watch/stack_dump.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace wmtp::comm {
namespace {

constexpr int kMaxFrames = 32;
constexpr int kMaxThreads = 128;
constexpr int kPatienceMs = 200;

// A signal handler has no other way to know where to write and whom to tell.
std::atomic<int> dump_fd = -1;
std::atomic<int> dumps_done = 0;

void write_text(int fd, const char* text) {
  if (::write(fd, text, std::strlen(text)) < 0) return;
}

void write_number(int fd, long number) {
  char digits[24] = {};
  int at = 22;
  do digits[at--] = static_cast<char>('0' + number % 10);
  while ((number /= 10) > 0);
  write_text(fd, digits + at + 1);
}

void write_own_stack(int fd) {
  void* frames[kMaxFrames];
  write_text(fd, "thread ");
  write_number(fd, ::syscall(SYS_gettid));
  write_text(fd, ":\n");
  ::backtrace_symbols_fd(frames, ::backtrace(frames, kMaxFrames), fd);
}

void on_dump_signal(int) {
  const int fd = dump_fd.load();
  if (fd >= 0) write_own_stack(fd);
  ++dumps_done;
}

void sleep_ms(long ms) {
  const timespec pause{0, ms * 1'000'000};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

void prepare_stack_dump() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);
}

void dump_stacks(int fd) {
  struct sigaction action {};
  action.sa_handler = &on_dump_signal;
  action.sa_flags = SA_RESTART;
  const int signal = SIGRTMIN + 5;
  if (::sigaction(signal, &action, nullptr) != 0) return;
  DIR* tasks = ::opendir("/proc/self/task");
  if (!tasks) return;
  dump_fd = fd;
  const long self = ::syscall(SYS_gettid);
  int left_ms = kPatienceMs;
  for (int count = 0; const dirent* entry = ::readdir(tasks);) {
    const long thread = ::atol(entry->d_name);
    if (thread <= 0 || thread == self || ++count > kMaxThreads) continue;
    // One after the other: the stacks must not be mixed.
    const int before = dumps_done;
    if (::syscall(SYS_tgkill, ::getpid(), thread, signal) != 0) continue;
    while (dumps_done == before && left_ms-- > 0) sleep_ms(1);
  }
  ::closedir(tasks);
  write_own_stack(fd);
}

}  // namespace wmtp::comm
