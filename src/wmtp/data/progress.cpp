#include "wmtp/data/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/log.h"

namespace wmtp::data {

void Progress::advance(std::uint64_t bytes_done, std::uint64_t new_rows) {
  constexpr double kInterval_s = 5;
  num_rows_ += new_rows;
  if (seconds_since(shown_) < kInterval_s) return;
  shown_ = Clock::now();
  const double seconds = seconds_since(start_);
  const double rate = static_cast<double>(bytes_done) / seconds;
  std::string share;
  if (total_bytes_ >= bytes_done && total_bytes_ > 0) {
    const double left = static_cast<double>(total_bytes_ - bytes_done) / std::max(rate, 1.0);
    share = fmt::format("{:.0f} %, ETA {}, ",
                        100.0 * static_cast<double>(bytes_done) / static_cast<double>(total_bytes_),
                        format_duration(left));
  }
  log::info("data", "{}: {}{} rows, {:.1f} MB/s", what_, share, num_rows_, rate / 1e6);
}

}  // namespace wmtp::data
