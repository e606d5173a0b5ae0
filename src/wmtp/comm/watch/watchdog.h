// Makes every hang and every death of a peer an exit code. Two threads: one keeps the deadline and
// never touches the store; the other beats once a second in the store, reads posts of failure, and
// on rank 0 watches the beats of all (elsewhere of rank 0).
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "wmtp/comm/collective_log.h"
#include "wmtp/comm/store.h"

namespace wmtp::comm {

// The root cause as the first rank to fail posted it.
struct Failure {
  int rank = 0;
  int code = 75;
  std::string message = {};
};

struct WatchdogOptions {
  int rank = 0, world = 1;
  Store store = {};                    // the run's; cloned for the beating thread
  std::filesystem::path run_dir = {};  // hang-<step>.json; empty: not written
  std::chrono::milliseconds beat = std::chrono::seconds(1);
  std::chrono::milliseconds dead_after = std::chrono::seconds(5);  // no beat: the peer is dead
  // Called at most once, from a thread of the watchdog, and must end the process with
  // `failure.code` at once (_exit): collectives cannot be woken. If it returns (tests), the
  // watchdog stops.
  std::function<void(const Failure& failure)> leave = {};
};

class Watchdog {
 public:
  // Starts the threads. World 1: only the deadline is watched.
  explicit Watchdog(WatchdogOptions options);
  ~Watchdog();  // stops the threads; at most one store call is waited for
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // THREADS: the functions below are cheap and safe from any thread, unless they say BLOCKS.
  // A new section with its own limit; 0 = none. progress() gives the section its whole limit again.
  void enter(const std::string& section, std::chrono::milliseconds limit);
  void progress();
  void set_step(std::int64_t step);
  // The run stops on request and must be saved within `grace`, or all ranks leave with 81, whatever
  // section it is in and however it gets on. A later call counts only if it is 0: no limit any
  // more.
  void limit_stop(std::chrono::milliseconds grace);
  // BORROWS: kept until the watchdog ends.
  void observe(const std::string& group, std::shared_ptr<const CollectiveLog> log);

  // BLOCKS for a store call. The first post of the run stands; returns it. Once post() or posted()
  // has returned one, the watchdog leaves with that code and no other: peers that leave for it are
  // no new failure.
  Failure post(const Failure& mine);
  // BLOCKS up to `patience` for another rank's post.
  std::optional<Failure> posted(std::chrono::milliseconds patience);

  // BLOCKS for a store call. The last beat: an orderly end is not a death. The deadline stays.
  void say_goodbye();

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread deadline_thread_;
};

// Limit of a training step: max(floor, 5 x the longest of the last 100).
class StepLimit {
 public:
  explicit StepLimit(double floor_s) : floor_s_(floor_s) {}
  void add(double seconds);
  double limit_s() const;

 private:
  double floor_s_;
  std::vector<double> recent_s_;
  std::size_t next_ = 0;
};

}  // namespace wmtp::comm
