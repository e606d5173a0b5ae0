#include "wmtp/tracking/system/host_reader.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>

#include "wmtp/core/procfs.h"

namespace wmtp::tracking {
namespace {

constexpr double kMb = 1e6;
// The kernel counts in ticks of 10 ms: of a shorter time it says next to nothing.
constexpr double kShortestWindow_s = 0.1;

std::vector<int> usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

double process_cpu_s() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double percent(double part, double whole) {
  return whole > 0 ? std::clamp(100 * part / whole, 0.0, 100.0) : kAbsent;
}

struct CgroupMemory {
  double used_bytes = 0, limit_bytes = 0;
};

// Of one group. Files that nobody has touched lately count as free: the kernel gives them up first.
std::optional<CgroupMemory> memory_in(const std::string& folder, bool second_version) {
  const auto number = [&](const char* file, std::string_view name = {}) {
    return procfs_number((folder + "/" + file).c_str(), name);
  };
  const auto limit = number(second_version ? "memory.max" : "memory.limit_in_bytes");
  const auto used = number(second_version ? "memory.current" : "memory.usage_in_bytes");
  if (!limit || !used || *limit <= 0) return std::nullopt;
  const auto files =
      number("memory.stat", second_version ? "inactive_file" : "total_inactive_file").value_or(0);
  return CgroupMemory{static_cast<double>(std::max<std::int64_t>(*used - files, 0)),
                      static_cast<double>(*limit)};
}

}  // namespace

double RisingCount::add(double now) {
  if (last_ && now > *last_) risen_ += now - *last_;
  last_ = now;
  return risen_;
}

HostReader::HostReader(HostFolders folders)
    : folders_(std::move(folders)),
      cores_(usable_cores()),
      times_(parse_cpu_times(text_of("stat"), cores_)),
      process_s_(process_cpu_s()) {
  SystemReading first;
  read_traffic(first);
}

std::string HostReader::text_of(const char* name) const {
  std::ifstream file(folders_.proc / name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void HostReader::read(SystemReading& reading) {
  read_processors(reading);
  read_memory(reading);
  read_disk(reading);
  read_traffic(reading);
}

void HostReader::read_processors(SystemReading& reading) {
  const double seconds = seconds_since(seen_);
  if (seconds < kShortestWindow_s) return;
  const auto times = parse_cpu_times(text_of("stat"), cores_);
  if (times && times_)
    reading[SystemValue::cpu_percent] =
        percent(times->busy - times_->busy, times->total - times_->total);
  const double process_s = process_cpu_s();
  const auto num_cores = static_cast<double>(
      cores_.empty() ? std::max(1u, std::thread::hardware_concurrency()) : cores_.size());
  reading[SystemValue::process_cpu_percent] = percent(process_s - process_s_, seconds * num_cores);
  seen_ = Clock::now();
  times_ = times;
  process_s_ = process_s;
}

void HostReader::read_memory(SystemReading& reading) const {
  constexpr double kKib = 1024;
  const std::string meminfo = text_of("meminfo");
  const auto total = number_in_table(meminfo, "MemTotal:");
  const auto available = number_in_table(meminfo, "MemAvailable:");
  std::optional<CgroupMemory> memory;
  if (total && available && *available <= *total)
    memory = CgroupMemory{(*total - *available) * kKib, *total * kKib};
  for (const CgroupFolder& group :
       cgroup_folders(text_of("self/cgroup"), "memory", folders_.cgroup)) {
    const auto found = memory_in(group.path, group.unified);
    if (found && (!memory || found->limit_bytes < memory->limit_bytes)) memory = found;
  }
  if (memory) {
    reading[SystemValue::memory_mb] = memory->used_bytes / kMb;
    reading[SystemValue::memory_percent] = percent(memory->used_bytes, memory->limit_bytes);
  }
  if (const auto resident = number_in_table(text_of("self/status"), "VmRSS:"))
    reading[SystemValue::process_memory_mb] = *resident * kKib / kMb;
}

void HostReader::read_disk(SystemReading& reading) const {
  struct statvfs disk {};
  if (::statvfs(folders_.run.c_str(), &disk) != 0 || disk.f_blocks == 0) return;
  const auto block = static_cast<double>(disk.f_frsize);
  const double used =
      (static_cast<double>(disk.f_blocks) - static_cast<double>(disk.f_bfree)) * block;
  const double available = static_cast<double>(disk.f_bavail) * block;
  reading[SystemValue::disk_used_mb] = used / kMb;
  reading[SystemValue::disk_available_mb] = available / kMb;
  // As df has it: what is kept for root is neither used nor available.
  reading[SystemValue::disk_used_percent] = percent(used, used + available);
}

void HostReader::read_traffic(SystemReading& reading) {
  if (const auto bytes = parse_network(text_of("self/net/dev"))) {
    reading[SystemValue::network_received_mb] = received_.add(bytes->received) / kMb;
    reading[SystemValue::network_sent_mb] = sent_.add(bytes->sent) / kMb;
  }
  const std::string io = text_of("self/io");
  const auto megabytes = [&](std::string_view name) {
    const auto bytes = number_in_table(io, name);
    return bytes ? *bytes / kMb : kAbsent;
  };
  reading[SystemValue::process_read_mb] = megabytes("read_bytes:");
  reading[SystemValue::process_written_mb] = megabytes("write_bytes:");
}

}  // namespace wmtp::tracking
