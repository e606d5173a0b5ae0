// Clocks. Limits and durations are monotonic; wall time only labels records.
#pragma once
#include <chrono>
#include <string>

namespace wmtp {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
std::string utc_timestamp();                  // RFC 3339, milliseconds: 2026-11-15T06:31:00.123Z
std::string format_duration(double seconds);  // 3:12:04, 12:04, 4.2 s

}  // namespace wmtp
