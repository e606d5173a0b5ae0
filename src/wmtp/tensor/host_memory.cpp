#include "wmtp/tensor/host_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace wmtp {
namespace {

// The number after `name` in a table of the kernel, or the first one of a file with one number.
std::optional<std::int64_t> kernel_number(const std::string& path, std::string_view name = "") {
  std::ifstream file(path);
  std::string word;
  std::int64_t value = 0;
  while (!name.empty() && word != name)
    if (!(file >> word)) return std::nullopt;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

void keep_freed_host_memory() {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
  ::mallopt(M_TOP_PAD, 64 << 20);
}

std::int64_t peak_resident_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

std::int64_t available_host_bytes() {
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  std::int64_t available = kUnknown;
  if (const auto kib = kernel_number("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  const std::string group = "/sys/fs/cgroup/memory";
  const auto limit = kernel_number(group + ".max"), used = kernel_number(group + ".current");
  if (!limit || !used) return available;
  const std::int64_t files = kernel_number(group + ".stat", "inactive_file").value_or(0) +
                             kernel_number(group + ".stat", "active_file").value_or(0);
  return std::min(available, *limit - *used + files);
}

}  // namespace wmtp
