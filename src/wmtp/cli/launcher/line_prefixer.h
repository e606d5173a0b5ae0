// Turns the bytes one rank writes to one stream into whole, prefixed lines on the launcher's
// console and a complete copy in the rank's log file. Drawings (core/live_frame.h) go to the
// console alone, each as a whole.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "wmtp/cli/launcher/frame_splitter.h"
#include "wmtp/cli/launcher/launch_console.h"
#include "wmtp/core/time.h"

namespace wmtp::cli {

inline constexpr std::chrono::milliseconds kPartialLineDelay{200};

// Whether a line of stderr is a warning, an error or anything unknown: all but our own log lines of
// the levels debug and info, as text or JSON.
bool is_problem_line(std::string_view line);
// Whether it is one of our own log lines that names its rank ("[module] rank 3: ..."), as those do
// that logging.console_ranks asks for.
bool names_its_rank(std::string_view line);

class LinePrefixer {
 public:
  enum class Show { nothing, problems, everything };  // problems: and lines with a rank
  struct Route {
    int source = 0;              // distinct per rank and stream
    std::string prefix;          // "[rank 3] "
    Console* console = nullptr;  // BORROWS
    Console* log = nullptr;      // BORROWS; null: no copy
    Show show = Show::everything;
    bool pass_through = false;  // bytes at once, for a rank that has the terminal to itself
  };

  explicit LinePrefixer(Route route) : route_(std::move(route)) {}

  void feed(std::string_view bytes, Clock::time_point now);
  // Shows a partial line that has waited long enough. partial_due: when that will be.
  void flush_partial(Clock::time_point now);
  Clock::time_point partial_due() const;
  void finish();  // end of the stream: what is left counts as a line
  bool blocked() const { return route_.show != Show::nothing && route_.console->full(); }

 private:
  void feed_text(std::string_view bytes, Clock::time_point now);
  void complete(std::string_view line);
  void show(std::string_view line);

  Route route_;
  FrameSplitter frames_;
  std::string partial_;          // the line so far
  std::size_t shown_bytes_ = 0;  // of it
  Clock::time_point waiting_since_{};
};

}  // namespace wmtp::cli
