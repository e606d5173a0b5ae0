#include "wmtp/tracking/system/procfs_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

namespace wmtp::tracking {
namespace {

constexpr std::string_view kBlanks = " \t";

// The first line of `text`, which is left with the others.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return line;
}

std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

// All of a word, as a count; sums of counts are made of doubles, which no text can overflow.
std::optional<double> count_of(std::string_view word) {
  std::uint64_t count = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), count);
  if (problem != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return static_cast<double>(count);
}

// The first `least` or more counts of a line; empty where there are fewer.
std::vector<double> counts_of(std::string_view line, std::size_t least) {
  std::vector<double> counts;
  while (counts.size() < least) {
    const auto count = count_of(take_word(line));
    if (!count) return {};
    counts.push_back(*count);
  }
  return counts;
}

// user nice system idle iowait irq softirq steal; guests, which come behind, are counted in user.
std::optional<CpuTimes> times_of_line(std::string_view line) {
  constexpr std::size_t kIdle = 3, kWaiting = 4, kColumns = 8;
  const std::vector<double> ticks = counts_of(line, kColumns);
  if (ticks.empty()) return std::nullopt;
  CpuTimes times;
  for (const double column : ticks) times.total += column;
  times.busy = times.total - ticks[kIdle] - ticks[kWaiting];
  return times;
}

}  // namespace

std::optional<CpuTimes> parse_cpu_times(std::string_view stat, std::span<const int> cores) {
  std::optional<CpuTimes> all;
  CpuTimes sum;
  std::vector<int> missing(cores.begin(), cores.end());
  while (!stat.empty()) {
    std::string_view line = take_line(stat);
    const std::string_view name = take_word(line);
    if (!name.starts_with("cpu")) continue;
    const auto times = times_of_line(line);
    if (!times) continue;
    if (name == "cpu") all = times;
    const auto core = std::find_if(missing.begin(), missing.end(), [&](int number) {
      return name.substr(3) == std::to_string(number);
    });
    if (core == missing.end()) continue;
    missing.erase(core);
    sum.busy += times->busy;
    sum.total += times->total;
  }
  return cores.empty() || !missing.empty() ? all : sum;
}

std::optional<NetworkBytes> parse_network(std::string_view net_dev) {
  constexpr std::size_t kReceived = 0, kSent = 8;
  std::optional<NetworkBytes> sum;
  while (!net_dev.empty()) {
    std::string_view line = take_line(net_dev);
    const std::size_t colon = line.rfind(':');  // a name may have one: eth0:1
    if (colon == line.npos) continue;
    std::string_view before = line.substr(0, colon);
    const std::string_view name = take_word(before);
    const std::vector<double> counts = counts_of(line.substr(colon + 1), kSent + 1);
    if (counts.empty() || name == "lo") continue;
    if (!sum) sum.emplace();
    sum->received += counts[kReceived];
    sum->sent += counts[kSent];
  }
  return sum;
}

std::optional<double> number_in_table(std::string_view table, std::string_view name) {
  while (!table.empty()) {
    std::string_view line = take_line(table);
    if (take_word(line) == name) return count_of(take_word(line));
  }
  return std::nullopt;
}

}  // namespace wmtp::tracking
