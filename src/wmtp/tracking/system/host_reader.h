// Readings of the host: processors, memory, disk, network. What cannot be read is absent.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/core/time.h"
#include "wmtp/tracking/system/procfs_text.h"
#include "wmtp/tracking/system/system_values.h"

namespace wmtp::tracking {

struct HostFolders {
  std::filesystem::path run = ".";  // its file system is the disk
  std::filesystem::path proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// A count that rises for as long as its source lives: what it has risen by since the first time.
class RisingCount {
 public:
  // Where it has fallen, an interface has gone or begun anew: what it lost stays counted.
  double add(double now);

 private:
  std::optional<double> last_;
  double risen_ = 0;
};

class HostReader {
 public:
  // Takes the counts that later readings are compared with.
  explicit HostReader(HostFolders folders);
  void read(SystemReading& reading);

 private:
  void read_processors(SystemReading& reading);
  void read_memory(SystemReading& reading) const;
  void read_disk(SystemReading& reading) const;
  void read_traffic(SystemReading& reading);
  std::string text_of(const char* name) const;  // of a file below proc; "" where there is none

  HostFolders folders_;
  std::vector<int> cores_;  // those this process may use; empty: not known
  Clock::time_point seen_ = Clock::now();
  std::optional<CpuTimes> times_;
  double process_s_ = 0;
  RisingCount received_, sent_;
};

}  // namespace wmtp::tracking
