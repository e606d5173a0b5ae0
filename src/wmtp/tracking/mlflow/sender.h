// Sends a spool to its server, one step at a time; when to do the next one is the caller's.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "wmtp/core/time.h"
#include "wmtp/http/retry.h"
#include "wmtp/tracking/mlflow/outbox.h"
#include "wmtp/tracking/mlflow/remote.h"
#include "wmtp/tracking/mlflow/spool/spool.h"

namespace wmtp::tracking::mlflow {

inline constexpr const char* kUidTag = "wmtp.run_uid";

struct SenderOptions {
  std::function<std::unique_ptr<Remote>()> connect;
  bool says_running = true;  // to a run that goes on; off: it is over, and only its rest is sent
  std::function<Clock::time_point()> now = &Clock::now;
};

struct SenderCounters {
  std::atomic<std::uint64_t> sent = 0, rejected = 0, outages = 0;
  std::atomic<std::uint64_t> acked = 0, num_later = 0;  // records that are done, but for so many
};

// THREADS: one at a time, but for the counters.
class Sender {
 public:
  // BORROWS spool. Throws storage::FileError.
  Sender(Spool& spool, SenderOptions options);

  enum class Outcome {
    sent,    // and there may be more
    idle,    // the server has all, or an artifact waits for its next try
    outage,  // the server is out of reach or busy: try again after `wait`
    blocked  // it refuses us, whatever we send: for people to mend; try again after `wait`
  };
  struct Step {
    Outcome outcome = Outcome::idle;
    std::chrono::milliseconds wait{0};
    bool is_unreachable = false;  // nobody listens there
    bool is_partial = false;      // sent, and not much is behind it
  };
  // BLOCKS for one request, or a few. Nothing is thrown.
  Step step();
  // Whether there is nothing left but the end itself, as of the last step.
  bool is_drained() const;
  // The run's end, from then on sent by step() when nothing else is left.
  void end(const SpooledEnd& end) { end_ = end; }
  bool is_end_sent() const { return end_ && end_->is_sent; }

  const SenderCounters& counters() const { return counters_; }
  const std::string& problem() const { return problem_; }  // of the last step; empty: none

 private:
  Step try_step();
  void find_run();
  bool send_next();
  bool send_artifact();
  bool send_end();
  void send_items(std::span<const Item> items);
  void set_aside(OrderedJson what, std::string_view why);
  void acknowledge();
  Step outage(const Error& error);
  Step blocked(std::string_view text);
  void told_reachable();

  Spool& spool_;
  const SenderOptions options_;
  std::unique_ptr<Remote> remote_;
  std::optional<Run> run_;  // found or made
  KnownThere known_;
  std::optional<Outbox> outbox_;
  std::optional<SpooledEnd> end_;
  std::set<std::pair<std::uint64_t, std::string>> aside_;  // of the batch that is under way
  SenderCounters counters_;
  Acked acked_;

  http::Backoff backoff_, artifact_backoff_;
  Clock::time_point next_artifact_ = {};
  std::optional<Clock::time_point> outage_since_;
  std::string problem_, told_problem_;
};

}  // namespace wmtp::tracking::mlflow
