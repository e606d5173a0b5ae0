// What the kernel's tables say, read from their text. Nothing throws: a text that is not what the
// kernel writes gives nothing.
#pragma once
#include <optional>
#include <span>
#include <string_view>

namespace wmtp::tracking {

// Ticks since the machine began.
struct CpuTimes {
  double busy = 0, total = 0;
};
// Of /proc/stat: the sum over `cores`, or over all where it does not list each of them.
std::optional<CpuTimes> parse_cpu_times(std::string_view stat, std::span<const int> cores);

struct NetworkBytes {
  double received = 0, sent = 0;
};
// Of /proc/net/dev: the sum over all interfaces but lo; nothing where there is none.
std::optional<NetworkBytes> parse_network(std::string_view net_dev);

// The number after `name` at the beginning of a line ("MemTotal:" of /proc/meminfo).
std::optional<double> number_in_table(std::string_view table, std::string_view name);

}  // namespace wmtp::tracking
