// Processor time of the calling thread: what it took, whoever else had the core meanwhile.
#pragma once
#include <ctime>

namespace wmtp::run {

inline double thread_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace wmtp::run
