#include "wmtp/tensor/host_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <limits>

#include "wmtp/core/procfs.h"

namespace wmtp {

void keep_freed_host_memory() {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
  ::mallopt(M_TOP_PAD, 64 << 20);
}

// The kernel's ru_maxrss also counts what the process was before it became this program: a rank
// that a large Python process starts would begin with that process's peak.
std::int64_t peak_resident_bytes() {
  if (const auto kib = procfs_number("/proc/self/status", "VmHWM:")) return *kib * 1024;
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

std::int64_t available_host_bytes() {
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  std::int64_t available = kUnknown;
  if (const auto kib = procfs_number("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  const auto limit = procfs_number("/sys/fs/cgroup/memory.max");
  const auto used = procfs_number("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return available;
  constexpr const char* kStat = "/sys/fs/cgroup/memory.stat";
  const std::int64_t files = procfs_number(kStat, "inactive_file").value_or(0) +
                             procfs_number(kStat, "active_file").value_or(0);
  return std::min(available, *limit - *used + files);
}

}  // namespace wmtp
