// A run as seen on the console: a live bar on a terminal, plain lines elsewhere, JSON Lines with
// --json. Rank 0 only. The trainer reports every step; the console decides what is shown: the bar
// at most 5 times a second, lines every `log_interval` steps and at least once a minute while steps
// complete. A validation that takes long is told as well.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "wmtp/config/tracking.h"
#include "wmtp/tracking/eta.h"
#include "wmtp/tracking/progress.h"
#include "wmtp/tracking/progress_bar.h"
#include "wmtp/tracking/sink.h"

namespace wmtp::tracking {

enum class ConsoleMode {
  bar,
  lines,
  json,
  off  // no steps; validations, checkpoints and the end are still told
};

struct ConsoleFacts {
  bool json = false;         // --json
  bool on_terminal = false;  // stdout is one
  bool under_slurm = false;  // output goes to a file that people follow
};
ConsoleMode choose_mode(config::Progress wanted, const ConsoleFacts& facts);

struct ConsoleOptions {
  ConsoleMode mode = ConsoleMode::lines;
  BarStyle style = {};  // its colour flag is that of all texts
  // Of the screen, asked before each drawing: it may be resized. Empty: style.columns.
  std::function<std::size_t()> columns = {};
  std::int64_t log_interval = 10;
  std::string stage = {};
  // Monotonic seconds; empty: the steady clock.
  std::function<double()> now_s = {};
};

// THREADS: any. While a bar stands, lines of the logger take it off the screen first.
class Console : public Sink {
 public:
  Console(std::ostream& out, ConsoleOptions options);  // BORROWS out
  ~Console() override;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void resumed(const Resumed& resumed) override;
  void sample(const DecodedSample& sample) override;  // the first one alone is shown
  void progress(const Progress& progress) override;
  void validating(const ValidationProgress& at) override;  // before its first batch and after each
  void validation(const Validation& validation) override;
  void saving(std::int64_t step) override;
  void saved(const SavedCheckpoint& saved) override;
  // The end: how it went and what to type next, then the numbers.
  void finished(const RunSummary& summary) override;
  void text(std::string_view line);  // any other line; not shown with --json

  std::optional<double> eta_s() const;  // to the end, as of the last step

 private:
  void say(std::string_view line);  // takes the bar off first
  void say_json(std::string_view type, const OrderedJson& fields);
  void tell(std::string_view line, std::string_view type, const OrderedJson& fields);
  void draw_bar(double now, const std::optional<ValidationProgress>& validating = {});
  void erase_bar();
  bool line_is_due(const Progress& progress, double now);
  bool json() const { return options_.mode == ConsoleMode::json; }

  std::ostream& out_;
  ConsoleOptions options_;
  mutable std::mutex mutex_;
  EtaEstimator eta_;
  std::optional<Progress> last_;
  std::optional<std::int64_t> saved_step_;
  double saved_at_s_ = 0, last_line_s_ = 0;
  std::optional<double> last_draw_s_, validating_told_s_;
  bool bar_stands_ = false;
  bool sample_shown_ = false;
};

}  // namespace wmtp::tracking
