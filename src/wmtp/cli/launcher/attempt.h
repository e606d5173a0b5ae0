// One start of all ranks, watched until every one of them has ended and its output is out.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/cli/launcher/child_process.h"
#include "wmtp/cli/launcher/launch_options.h"
#include "wmtp/cli/launcher/line_prefixer.h"
#include "wmtp/cli/launcher/rank_output.h"
#include "wmtp/cli/launcher/signal_fd.h"
#include "wmtp/core/time.h"

namespace wmtp::cli {

// What stop signals have asked for so far; outlives attempts.
struct StopRequest {
  std::optional<Clock::time_point> since;                  // first stop signal
  std::optional<Clock::time_point> first_term, first_int;  // SIGHUP counts as SIGTERM
  // Notes a signal; how long the ranks may still run because of it, if it says so.
  std::optional<std::chrono::duration<double>> note(int signal, Clock::time_point now,
                                                    std::chrono::duration<double> grace);
};

class Attempt {
 public:
  // BORROWS all. Starts the ranks; if one cannot be started the others are ended first.
  Attempt(const LaunchOptions& options, RankOutput& output, SignalFd& signals, StopRequest& stop);

  // `parent_pipe` and `env` values of this attempt. BLOCKS until done. The exit code: 0, or that of
  // the first rank that failed.
  int run(const Pipe& parent_pipe, int restart_count, const std::string& run_token,
          const std::string& rendezvous);

 private:
  struct RankState {
    int rank;
    ChildProcess process;
    LinePrefixer out, err;
  };

  void start_rank(int rank, const Pipe& parent_pipe, const std::vector<std::string>& environment);
  void wait_for_event();
  void on_signals(Clock::time_point now);
  void reap(Clock::time_point now);
  void note_failure(int rank, int code, Clock::time_point now);
  void read_output(Clock::time_point now);
  void read_stream(UniqueFd& fd, LinePrefixer& prefixer, Clock::time_point now);
  void enforce_deadline(Clock::time_point now);
  void limit(std::chrono::duration<double> remaining, Clock::time_point now);
  bool any_running() const;
  bool finished(Clock::time_point now) const;
  int poll_timeout_ms(Clock::time_point now) const;

  const LaunchOptions& options_;
  RankOutput& output_;
  SignalFd& signals_;
  StopRequest& stop_;
  std::deque<RankState> ranks_;
  std::optional<int> failed_code_;
  Clock::time_point kill_at_ = Clock::time_point::max();
  bool killed_ = false;
  Clock::time_point last_output_{};
};

}  // namespace wmtp::cli
