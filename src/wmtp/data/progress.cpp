#include "wmtp/data/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/log.h"
#include "wmtp/core/log_hook.h"

namespace wmtp::data {

void Progress::advance(std::uint64_t bytes_done, std::uint64_t new_rows) {
  constexpr double kRedraw_s = 0.2, kLine_s = 5;
  num_rows_ += new_rows;
  if (seconds_since(shown_) < kRedraw_s) return;
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
  const std::string done = fmt::format("{}{} rows, {:.1f} MB/s", share, num_rows_, rate / 1e6);
  // There is room for a line: the folder may be long, and what moves comes last.
  const bool shown =
      log::show_live(fmt::format("{} {}: {}", what_, file_.filename().string(), done));
  if (shown || seconds_since(told_) < kLine_s) return;
  told_ = shown_;
  log::info("data", "{} {}: {}", what_, file_.string(), done);
}

Progress::~Progress() {
  log::show_live("");
}

}  // namespace wmtp::data
